"""SQL for users and sessions. Each function runs in the transaction of its connection."""

from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from penstock.accounts.credentials import hash_secret
from penstock.accounts.model import PENDING_S, CurrentUser, Role, User, Workspace
from penstock.base.ids import SessionId, UserAccountId, WorkspaceId
from penstock.metadb.rows import row_values
from penstock.metadb.tables import (
    invitations,
    memberships,
    password_resets,
    pending_log_ins,
    sessions,
    setup_tokens,
    users,
    workspaces,
)

MAX_SETUP_TOKENS = 100
"""Maximum number of setup tokens. Each node adds one when it starts, until an account exists."""


def lock_sign_ups(db: Connection) -> None:
    """Serialise sign-ups until the transaction ends. SQLite serialises all writes anyway."""
    if db.dialect.name == "postgresql":
        db.execute(text("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"))


def lock_user(db: Connection, user_id: str) -> bool:
    """Lock the user until the transaction ends. Returns False if the user does not exist."""
    user = select(users.c.id).where(users.c.id == user_id).with_for_update()
    return db.execute(user).first() is not None


def any_account(db: Connection) -> bool:
    return db.execute(select(users.c.id).limit(1)).first() is not None


def add_setup_token(db: Connection, token_hash: bytes, now_ms: int) -> None:
    """Store a node's token, and delete the oldest tokens beyond `MAX_SETUP_TOKENS`."""
    newest = select(setup_tokens.c.token_hash).order_by(setup_tokens.c.created_at.desc())
    newer_hashes = db.scalars(newest.limit(MAX_SETUP_TOKENS - 1)).all()
    db.execute(delete(setup_tokens).where(setup_tokens.c.token_hash.not_in(newer_hashes)))
    db.execute(insert(setup_tokens).values(token_hash=token_hash, created_at=now_ms))


def has_setup_token(db: Connection, token_hash: bytes) -> bool:
    statement = select(setup_tokens.c.token_hash).where(setup_tokens.c.token_hash == token_hash)
    return db.execute(statement).first() is not None


def delete_setup_tokens(db: Connection) -> None:
    db.execute(delete(setup_tokens))


def email_taken(db: Connection, email: str) -> bool:
    return db.execute(select(users.c.id).where(users.c.email == email)).first() is not None


def add_user(db: Connection, user: User, password_hash: str) -> None:
    values = row_values(user, users, without=("password_hash",))
    db.execute(insert(users).values(values | {"password_hash": password_hash}))


def add_workspace(db: Connection, workspace: Workspace) -> None:
    c = workspaces.c  # the settings have their defaults
    values = {c.id: workspace.id, c.name: workspace.name, c.created_at: workspace.created_at_ms}
    db.execute(insert(workspaces).values(values))


def workspace(db: Connection, workspace_id: str) -> Workspace | None:
    c = workspaces.c
    row = db.execute(select(c.id, c.name, c.created_at).where(c.id == workspace_id)).first()
    return None if row is None else Workspace(*row)


def add_member(db: Connection, account: CurrentUser, now_ms: int) -> None:
    """Add the user to the workspace with the account's role."""
    membership = {
        "workspace_id": account.workspace.id,
        "user_id": account.user.id,
        "role": account.role.value,
        "created_at": now_ms,
    }
    db.execute(insert(memberships).values(membership))


_ACCOUNT = (
    users.c.id,
    users.c.email,
    users.c.created_at,
    users.c.email_confirmed_at,
    workspaces.c.id.label("workspace_id"),
    workspaces.c.name.label("workspace_name"),
    workspaces.c.created_at.label("workspace_created_at"),
    memberships.c.role,
)

_SESSION = (
    select(*_ACCOUNT, sessions.c.id.label("session_id"), sessions.c.expires_at)
    .join(users, users.c.id == sessions.c.user_id)
    .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
    .join(
        memberships,
        (memberships.c.user_id == sessions.c.user_id)
        & (memberships.c.workspace_id == sessions.c.workspace_id),
    )
    .where(
        sessions.c.token_hash == bindparam("token_hash"),
        sessions.c.expires_at > bindparam("now_ms"),
    )
)


def _current_user(row: Row[*tuple[Any, ...]], session_id: SessionId | None = None) -> CurrentUser:
    return CurrentUser(
        user=User(UserAccountId(row.id), row.email, row.created_at, row.email_confirmed_at),
        workspace=Workspace(
            WorkspaceId(row.workspace_id), row.workspace_name, row.workspace_created_at
        ),
        role=Role(row.role),
        session_id=session_id,
    )


def account_by_email(db: Connection, email: str) -> tuple[CurrentUser, str] | None:
    """Return the user with their oldest workspace, and the password hash."""
    row = db.execute(_accounts(users.c.password_hash).where(users.c.email == email)).first()
    return None if row is None else (_current_user(row), row.password_hash)


def _accounts(*more: Column[Any]) -> Select[Any]:
    """Select a user with their oldest workspace; callers add a condition. more: extra columns."""
    return (
        select(*_ACCOUNT, *more)
        .select_from(users)
        .join(memberships, memberships.c.user_id == users.c.id)
        .join(workspaces, workspaces.c.id == memberships.c.workspace_id)
        .order_by(memberships.c.created_at, workspaces.c.id)
        .limit(1)
    )


def add_token(
    db: Connection,
    table: Table,
    token: str,
    user_id: str,
    now_ms: int,
    valid_s: int,
    **more: object,
) -> None:
    """Store the hash of a user's new token, and delete all users' expired tokens of its kind.

    table: the tokens of this kind. more: its further columns.
    """
    db.execute(delete(table).where(table.c.expires_at <= now_ms))
    columns = {"token_hash": hash_secret(token), "user_id": user_id, **more}
    db.execute(insert(table).values(**columns, expires_at=now_ms + valid_s * 1000))


def add_pending_log_in(db: Connection, token: str, user_id: UserAccountId, now_ms: int) -> None:
    add_token(db, pending_log_ins, token, user_id, now_ms, PENDING_S, wrong_codes=0)


def account_of_pending_log_in(db: Connection, token_hash: bytes, now_ms: int) -> CurrentUser | None:
    """Return the user of a log-in that is waiting for a code, with their oldest workspace."""
    c = pending_log_ins.c
    statement = _accounts().join(pending_log_ins, c.user_id == users.c.id)
    row = db.execute(statement.where(c.token_hash == token_hash, c.expires_at > now_ms)).first()
    return None if row is None else _current_user(row)


def count_wrong_code(db: Connection, token_hash: bytes, max_wrong_codes: int) -> None:
    """Count a wrong code. max_wrong_codes: the log-in ends after this many wrong codes."""
    c = pending_log_ins.c
    is_log_in = c.token_hash == token_hash
    db.execute(update(pending_log_ins).where(is_log_in).values(wrong_codes=c.wrong_codes + 1))
    db.execute(delete(pending_log_ins).where(is_log_in, c.wrong_codes >= max_wrong_codes))


def end_pending_log_in(db: Connection, token_hash: bytes) -> None:
    db.execute(delete(pending_log_ins).where(pending_log_ins.c.token_hash == token_hash))


def add_session(
    db: Connection,
    session_id: SessionId,
    token_hash: bytes,
    account: CurrentUser,
    now_ms: int,
    expires_at_ms: int,
) -> None:
    db.execute(
        insert(sessions).values(
            token_hash=token_hash,
            id=session_id,
            user_id=account.user.id,
            workspace_id=account.workspace.id,
            created_at=now_ms,
            last_seen_at=now_ms,
            expires_at=expires_at_ms,
        )
    )


def session(db: Connection, token_hash: bytes, now_ms: int) -> tuple[CurrentUser, int] | None:
    """Return the user of an open session, and its expiry.

    Returns None if the session has ended or its user has left the workspace.
    """
    row = db.execute(_SESSION, {"token_hash": token_hash, "now_ms": now_ms}).first()
    if row is None:
        return None
    return _current_user(row, SessionId(row.session_id)), row.expires_at


def session_is_open(db: Connection, session_id: SessionId) -> bool:
    statement = select(sessions.c.id).where(sessions.c.id == session_id)
    return db.execute(statement).first() is not None


def extend_session(db: Connection, token_hash: bytes, now_ms: int, expires_at_ms: int) -> None:
    db.execute(
        update(sessions)
        .where(sessions.c.token_hash == token_hash)
        .values(last_seen_at=now_ms, expires_at=expires_at_ms)
    )


def end_session(db: Connection, token_hash: bytes) -> None:
    db.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def end_sessions(db: Connection, user_id: UserAccountId) -> int:
    """End all sessions and pending log-ins of the user. Returns the number of ended sessions."""
    db.execute(delete(pending_log_ins).where(pending_log_ins.c.user_id == user_id))
    return db.execute(delete(sessions).where(sessions.c.user_id == user_id)).rowcount


def confirm_email(db: Connection, user_id: UserAccountId, now_ms: int) -> None:
    """Record that the user has proven the address. An earlier proof is kept."""
    is_unconfirmed = (users.c.id == user_id, users.c.email_confirmed_at.is_(None))
    db.execute(update(users).where(*is_unconfirmed).values(email_confirmed_at=now_ms))


def delete_expired_sessions(db: Connection, now_ms: int) -> None:
    """Delete expired sessions, and expired log-ins that were never finished."""
    for table in (sessions, pending_log_ins):
        db.execute(delete(table).where(table.c.expires_at <= now_ms))


def role(db: Connection, workspace_id: WorkspaceId, user_id: str) -> Role | None:
    """Return the user's role in the workspace; None if they are not a member."""
    is_member = (memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id)
    value = db.scalar(select(memberships.c.role).where(*is_member))
    return None if value is None else Role(value)


def end_resets(db: Connection, user_id: UserAccountId) -> None:
    """Delete the user's open password resets."""
    db.execute(delete(password_resets).where(password_resets.c.user_id == user_id))


def end_invitations_by(db: Connection, user: User) -> None:
    """Delete the user's open invitations to their current workspaces."""
    own = select(memberships.c.workspace_id).where(memberships.c.user_id == user.id)
    is_theirs = (invitations.c.workspace_id.in_(own), invitations.c.invited_by == user.email)
    db.execute(delete(invitations).where(*is_theirs))
