"""Rules that decide which imports a caller sees and changes, and how many may be open."""

from collections.abc import Collection

from sqlalchemy import Connection

from penstock.accounts.keys.service import require_website_of_key
from penstock.accounts.model import Caller
from penstock.base.errors import NotFound, QueueFull
from penstock.base.ids import WorkspaceId
from penstock.events.imports import store
from penstock.events.imports.model import ImportJob
from penstock.http.scopes import KeyScope

_MAX_OPEN_JOBS = 20


def sender_of(caller: Caller) -> str | None:
    return caller.key_id or caller.user_id


def seen_import(
    job: ImportJob | None,
    actor: Caller,
    scopes: Collection[KeyScope] = (KeyScope.READ, KeyScope.MANAGE),
) -> ImportJob:
    """Return the import if the actor may see it.

    Before its start, a key without any of these scopes sees only the files that it sent itself.
    """
    if job is None:
        raise import_not_found()
    if job.is_staged and actor.scopes.isdisjoint(scopes) and job.sent_by != sender_of(actor):
        raise import_not_found()
    require_website_of_key(actor, job.website_id)
    return job


def changed_import(db: Connection, actor: Caller, import_id: str) -> ImportJob:
    """Lock the import and return it if the actor may change it."""
    job = store.find(db, actor.workspace_id, import_id, lock=True)
    return seen_import(job, actor, (KeyScope.MANAGE,))


def require_few_open(db: Connection, workspace_id: WorkspaceId) -> None:
    unfinished = store.unfinished_imports(db, workspace_id=workspace_id)
    count = sum(not each.is_staged for each in unfinished)
    if count >= _MAX_OPEN_JOBS:
        raise QueueFull(
            f"This workspace has {count} unfinished imports, the limit; wait or cancel one.",
            code="too_many_imports",
            retry_after_s=30,
        )


def import_not_found() -> NotFound:
    return NotFound("There is no such import in this workspace.")
