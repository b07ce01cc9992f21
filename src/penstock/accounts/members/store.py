"""SQL for members. Each function runs in the transaction of its connection."""

from typing import Any

from sqlalchemy import Connection, Select, delete, func, select, update

from penstock.accounts.members.schema import MemberRecord
from penstock.accounts.model import Role
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.tables import memberships, second_factors, sessions, users


def _members(workspace_id: WorkspaceId) -> Select[Any]:
    columns = (
        users.c.id.label("user_id"),
        users.c.email,
        memberships.c.role,
        memberships.c.created_at.label("since"),
        second_factors.c.confirmed_at.is_not(None).label("second_factor"),
    )
    rows = select(*columns).join(memberships, memberships.c.user_id == users.c.id)
    rows = rows.outerjoin(second_factors, second_factors.c.user_id == users.c.id)
    return rows.where(memberships.c.workspace_id == workspace_id).order_by(
        memberships.c.created_at, users.c.id
    )


def members(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[MemberRecord]:
    """List members in the order in which they joined."""
    return listing_of(db, _members(workspace_id), page, MemberRecord.from_object)


def member(db: Connection, workspace_id: WorkspaceId, user_id: str) -> MemberRecord | None:
    row = db.execute(_members(workspace_id).where(users.c.id == user_id)).first()
    return None if row is None else MemberRecord.from_object(row)


def is_member(db: Connection, workspace_id: WorkspaceId, email: str) -> bool:
    return db.execute(_members(workspace_id).where(users.c.email == email)).first() is not None


def owner_count(db: Connection, workspace_id: WorkspaceId) -> int:
    is_owner = (memberships.c.workspace_id == workspace_id, memberships.c.role == Role.OWNER.value)
    return db.scalar(select(func.count()).select_from(memberships).where(*is_owner)) or 0


def change_role(db: Connection, workspace_id: WorkspaceId, user_id: str, role: Role) -> None:
    is_member = (memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id)
    db.execute(update(memberships).where(*is_member).values(role=role.value))


def remove_member(db: Connection, workspace_id: WorkspaceId, user_id: str) -> None:
    """Delete the membership and its sessions, and the account if this was its last workspace."""
    for table in (sessions, memberships):
        db.execute(
            delete(table).where(table.c.workspace_id == workspace_id, table.c.user_id == user_id)
        )
    others = select(memberships.c.user_id).where(memberships.c.user_id == user_id)
    if db.execute(others.limit(1)).first() is None:
        db.execute(delete(sessions).where(sessions.c.user_id == user_id))
        db.execute(delete(users).where(users.c.id == user_id))
