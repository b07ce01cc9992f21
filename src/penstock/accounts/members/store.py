"""SQL for members. Each function runs in the transaction of its connection."""

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, select, update

from penstock.accounts.members.model import Member
from penstock.accounts.model import Role, User
from penstock.base.ids import UserAccountId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import memberships, second_factors, sessions, users, workspaces


def lock_members(db: Connection, workspace_id: WorkspaceId) -> None:
    """Lock the members and roles of the workspace until the transaction ends."""
    db.execute(
        select(workspaces.c.id)
        .where(workspaces.c.id == workspace_id)
        .with_for_update(key_share=True)
    )


def _members(workspace_id: WorkspaceId) -> Select[Any]:
    columns = (
        users.c.id,
        users.c.email,
        users.c.created_at,
        users.c.email_confirmed_at,
        memberships.c.role,
        memberships.c.created_at.label("since"),
        second_factors.c.confirmed_at,
    )
    rows = select(*columns).join(memberships, memberships.c.user_id == users.c.id)
    rows = rows.outerjoin(second_factors, second_factors.c.user_id == users.c.id)
    return rows.where(memberships.c.workspace_id == workspace_id).order_by(
        memberships.c.created_at, users.c.id
    )


def _member(row: Row[Any]) -> Member:
    user = User(UserAccountId(row.id), row.email, row.created_at, row.email_confirmed_at)
    return Member(user, Role(row.role), row.since, row.confirmed_at is not None)


def members(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Member]:
    """List members in the order in which they joined."""
    rows, total = page_of(db, _members(workspace_id), page)
    return Listing([_member(row) for row in rows], page, total)


def member(db: Connection, workspace_id: WorkspaceId, user_id: str) -> Member | None:
    row = db.execute(_members(workspace_id).where(users.c.id == user_id)).first()
    return None if row is None else _member(row)


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
    if (
        db.execute(
            select(memberships.c.user_id).where(memberships.c.user_id == user_id).limit(1)
        ).first()
        is None
    ):
        db.execute(delete(sessions).where(sessions.c.user_id == user_id))
        db.execute(delete(users).where(users.c.id == user_id))
