"""SQL for the audit log. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, insert, select

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.schema import AuditRecord
from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.tables import audit_entries

_CHUNK = 1000


def add_entry(db: Connection, actor: Caller, action: Action, target: str, now_ms: int) -> None:
    db.execute(
        insert(audit_entries).values(
            workspace_id=actor.workspace_id,
            at=now_ms,
            action=action.value,
            actor=actor.name,
            actor_id=actor.user_id or actor.key_id or "",
            target=target,
        )
    )


def entries(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[AuditRecord]:
    """List the workspace's entries, newest first."""
    c = audit_entries.c
    statement = select(audit_entries).where(c.workspace_id == workspace_id)
    newest = statement.order_by(c.at.desc(), c.id.desc())
    return listing_of(db, newest, page, AuditRecord.from_object)


def delete_old(db: Connection, before_ms: int) -> bool:
    """Delete a chunk of entries older than this time. Returns False if there were none."""
    c = audit_entries.c
    old = select(c.id).where(c.at < before_ms).order_by(c.at).limit(_CHUNK)
    return db.execute(delete(audit_entries).where(c.id.in_(old))).rowcount > 0
