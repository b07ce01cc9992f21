"""SQL for a user's own account. Each function runs in the transaction of its connection."""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, select, update

from penstock.accounts.model import CurrentUser
from penstock.accounts.own_account.schema import MembershipRecord, OpenSessionRecord
from penstock.accounts.schema import WorkspaceRecord
from penstock.base.ids import UserAccountId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.tables import memberships, pending_log_ins, sessions, users, workspaces


def password_hash(db: Connection, user_id: UserAccountId) -> str | None:
    stored_hash: str | None = db.scalar(select(users.c.password_hash).where(users.c.id == user_id))
    return stored_hash


def change_password(db: Connection, user_id: UserAccountId, password_hash: str) -> None:
    db.execute(update(users).where(users.c.id == user_id).values(password_hash=password_hash))


def sessions_page(
    db: Connection, user_id: UserAccountId, token_hash: bytes, now_ms: int, page: Page
) -> Listing[OpenSessionRecord]:
    """List open sessions, most recently seen first. token_hash: hash of the current session's
    token.
    """
    statement = select(sessions).where(
        sessions.c.user_id == user_id, sessions.c.expires_at > now_ms
    )
    latest = statement.order_by(sessions.c.last_seen_at.desc(), sessions.c.id.desc())
    return listing_of(
        db,
        latest,
        page,
        lambda row: OpenSessionRecord.from_object(row, current=row.token_hash == token_hash),
    )


def end_session(db: Connection, user_id: UserAccountId, session_id: str) -> bool:
    """End the session. Returns False if the user does not have this session."""
    is_session = (sessions.c.user_id == user_id, sessions.c.id == session_id)
    return db.execute(delete(sessions).where(*is_session)).rowcount > 0


def end_other_sessions(db: Connection, user_id: UserAccountId, token_hash: bytes) -> None:
    db.execute(
        delete(sessions).where(sessions.c.user_id == user_id, sessions.c.token_hash != token_hash)
    )


def end_pending_log_ins(db: Connection, user_id: UserAccountId) -> None:
    db.execute(delete(pending_log_ins).where(pending_log_ins.c.user_id == user_id))


def workspace_count(db: Connection, user_id: str) -> int:
    count = select(func.count()).select_from(memberships)
    return db.scalar(count.where(memberships.c.user_id == user_id)) or 0


_MEMBERSHIPS = (
    select(
        workspaces.c.id,
        workspaces.c.name,
        workspaces.c.created_at,
        memberships.c.role,
        memberships.c.created_at.label("since"),
    )
    .join(memberships, memberships.c.workspace_id == workspaces.c.id)
    .where(memberships.c.user_id == bindparam("user"))
    .order_by(memberships.c.created_at, workspaces.c.id)
)


def _membership(row: Row[*tuple[Any, ...]]) -> MembershipRecord:
    return MembershipRecord.from_object(row, workspace=WorkspaceRecord.from_object(row))


def memberships_page(
    db: Connection, user_id: UserAccountId, page: Page
) -> Listing[MembershipRecord]:
    """List the user's workspaces in the order in which they joined them."""
    return listing_of(db, _MEMBERSHIPS, page, _membership, {"user": user_id})


def membership(db: Connection, user_id: UserAccountId, workspace_id: str) -> MembershipRecord:
    """Return the user's membership in a workspace that they are a member of."""
    statement = _MEMBERSHIPS.where(workspaces.c.id == workspace_id)
    return _membership(db.execute(statement, {"user": user_id}).one())


def switch_session(db: Connection, token_hash: bytes, account: CurrentUser) -> None:
    """Move the session to the account's workspace."""
    is_session = (sessions.c.token_hash == token_hash, sessions.c.user_id == account.user.id)
    db.execute(update(sessions).where(*is_session).values(workspace_id=account.workspace.id))
