"""Use cases for undoing imports. Methods block: call them from a worker thread."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.model import Deletion, Target, new_deletion
from penstock.events.deletions.undos.model import Undo, UndoCounts
from penstock.events.deletions.warehouse_deletion import WarehouseDeletion
from penstock.events.imports import store as imports_store
from penstock.events.imports.access import changed_import, seen_import
from penstock.events.imports.model import UNFINISHED, ImportJob, ImportState
from penstock.events.quarantine.selection import (
    containing,
    forget_latest_quarantined,
    forget_quarantined,
)
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.earlier import store as earlier_store
from penstock.events.shipper import Shipper
from penstock.http.scopes import KeyScope
from penstock.identity import service as identity

_SHIP_S = 5.0
"""Maximum time for which a count waits until the import's last events are in the event store."""


class ImportUndoService:
    """Undoes imports. The worker of deletions does the work."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        shipper: Shipper,
        *,
        on_requested: Callable[[], None],
    ) -> None:
        """on_requested: wakes the worker of deletions."""
        self._database, self._clock = core.database, core.clock
        self._websites, self._shipper, self._on_requested = websites, shipper, on_requested
        self._warehouse_deletion = WarehouseDeletion(core.warehouse, pause=lambda: None)

    def preview(self, actor: Caller, import_id: str) -> UndoCounts:
        """Count what the undo of an import would remove.

        Raises `NotFound` if there is no such import, and `Conflict` if it cannot be undone or was
        undone before.
        """
        with self._database.read() as db:
            job = imports_store.find(db, actor.workspace_id, import_id)
        job = seen_import(job, actor, (KeyScope.MANAGE,))
        if job.state is ImportState.UNDONE:
            raise Conflict("The import was undone before.", code="import_undone")
        _require_undoable(job)
        return self._counts(job)

    def undo(self, actor: Caller, import_id: str) -> Undo:
        """Accept the undo of an import. From now on, other lines are not its duplicates.

        Raises the errors of `preview`, but returns the deletion of an import that was undone
        before.
        """
        with self._database.read() as db:
            job = imports_store.find(db, actor.workspace_id, import_id)
        job = seen_import(job, actor, (KeyScope.MANAGE,))
        counts = None
        if job.state is not ImportState.UNDONE:
            _require_undoable(job)
            counts = self._counts(job)
        names_import = containing([job.id])
        quarantined = Counter[str]()
        searched = forget_quarantined(self._database, [job.website_id], names_import, quarantined)
        with self._database.write() as db:
            job = changed_import(db, actor, import_id)
            earlier = store.undo_of(db, job.id)
            if earlier is not None:
                return Undo(job.id, None, earlier)
            _require_undoable(job)
            latest = forget_latest_quarantined(db, names_import, searched)
            deletion = self._begin(db, job, quarantined.total() + latest)
            target = f"{job.id} {job.website_id}"
            audit.record(db, actor, Action.IMPORT_UNDONE, target, deletion.created_at_ms)
        self._on_requested()
        return Undo(job.id, counts, deletion)

    def _begin(self, db: Connection, job: ImportJob, quarantined: int) -> Deletion:
        now_ms = self._clock()
        website = self._websites.stored_website(job.workspace_id, job.website_id)
        deletion = replace(
            new_deletion(website, Target.IMPORT, now_ms),
            import_id=job.id,
            outbox_id=events_store.highest_bundle(db),
            newest_number=repeats_store.newest_number(db),
            key_id=earlier_store.highest_id(db),
            removed={"database": {"quarantined": quarantined}},
        )
        imports_store.begin_undo(db, job, now_ms)
        store.add(db, deletion, [job.website_id])
        return deletion

    def _counts(self, job: ImportJob) -> UndoCounts:
        self._shipper.wait_until_shipped(_SHIP_S)
        website = self._websites.stored_website(job.workspace_id, job.website_id)
        deletion = replace(new_deletion(website, Target.IMPORT, self._clock()), import_id=job.id)
        events = self._warehouse_deletion.count(deletion, [job.website_id])
        with self._database.read() as db:
            identities = identity.stated_counts(db, job.id)
            duplicates = imports_store.duplicates(db, job.id)
        return UndoCounts(events.get(job.website_id), identities, duplicates)


def _require_undoable(job: ImportJob) -> None:
    if job.state in UNFINISHED:
        raise Conflict(
            "The import is not finished. Cancel it first, and then undo it.",
            code="import_not_finished",
        )
    if not job.is_undoable:
        raise Conflict(
            "This import began with a version that did not record which events an import stores. "
            "Delete its period with POST /api/deletions, or import the right files into a new "
            "website.",
            code="import_not_undoable",
        )
