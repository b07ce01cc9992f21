"""The SQL of people. Each function works inside the transaction of the connection that it is given."""

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from penstock.accounts.model import Role, SignedIn, User, Workspace
from penstock.accounts.people.model import Invitation, Joined, Member, OpenSession
from penstock.base.ids import InvitationId, SessionId, UserAccountId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import invitations, memberships, sessions, users, workspaces

# Members --------------------------------------------------------------------------------------------------------------


def hold_members(db: Connection, workspace_id: WorkspaceId) -> None:
    """Let nobody else change who is in the workspace, or in which role, until this transaction ends."""
    db.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update(key_share=True))


def hold_user(db: Connection, user_id: str) -> bool:
    """Keep others from changing what the user is in until this transaction ends. False when there is no such user any more."""
    return db.execute(select(users.c.id).where(users.c.id == user_id).with_for_update()).first() is not None


def _members(workspace_id: WorkspaceId) -> Select[Any]:
    columns = (users.c.id, users.c.email, users.c.created_at, memberships.c.role, memberships.c.created_at.label("since"))
    joined = select(*columns).join(memberships, memberships.c.user_id == users.c.id)
    return joined.where(memberships.c.workspace_id == workspace_id).order_by(memberships.c.created_at, users.c.id)


def _member(row: Row[Any]) -> Member:
    return Member(User(UserAccountId(row.id), row.email, row.created_at), Role(row.role), row.since)


def members(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Member]:
    """In the order in which they joined."""
    rows, total = page_of(db, _members(workspace_id), page)
    return Listing([_member(row) for row in rows], page, total)


def member(db: Connection, workspace_id: WorkspaceId, user_id: str) -> Member | None:
    row = db.execute(_members(workspace_id).where(users.c.id == user_id)).first()
    return None if row is None else _member(row)


def is_member(db: Connection, workspace_id: WorkspaceId, email: str) -> bool:
    return db.execute(_members(workspace_id).where(users.c.email == email)).first() is not None


def owners(db: Connection, workspace_id: WorkspaceId) -> int:
    mine = (memberships.c.workspace_id == workspace_id, memberships.c.role == Role.OWNER.value)
    return db.scalar(select(func.count()).select_from(memberships).where(*mine)) or 0


def change_role(db: Connection, workspace_id: WorkspaceId, user_id: str, role: Role) -> None:
    mine = (memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id)
    db.execute(update(memberships).where(*mine).values(role=role.value))


def remove_member(db: Connection, workspace_id: WorkspaceId, user_id: str) -> None:
    """With the user's sessions in the workspace; and with the account, if this was its last workspace."""
    for table in (sessions, memberships):
        db.execute(delete(table).where(table.c.workspace_id == workspace_id, table.c.user_id == user_id))
    if db.execute(select(memberships.c.user_id).where(memberships.c.user_id == user_id).limit(1)).first() is None:
        db.execute(delete(sessions).where(sessions.c.user_id == user_id))
        db.execute(delete(users).where(users.c.id == user_id))


# Invitations ----------------------------------------------------------------------------------------------------------


def add_invitation(db: Connection, invitation: Invitation, token_hash: bytes) -> None:
    """In the place of an earlier one to the same e-mail address."""
    mine = (invitations.c.workspace_id == invitation.workspace.id, invitations.c.email == invitation.email)
    db.execute(delete(invitations).where(*mine))
    db.execute(
        insert(invitations).values(
            id=invitation.id,
            workspace_id=invitation.workspace.id,
            email=invitation.email,
            role=invitation.role.value,
            token_hash=token_hash,
            invited_by=invitation.invited_by,
            created_at=invitation.created_at_ms,
            expires_at=invitation.expires_at_ms,
        )
    )


def drop_ended_invitations(db: Connection, workspace_id: WorkspaceId, now_ms: int) -> None:
    db.execute(delete(invitations).where(invitations.c.workspace_id == workspace_id, invitations.c.expires_at <= now_ms))


def _open_invitations(now_ms: int) -> Select[Any]:
    named = (workspaces.c.name, workspaces.c.created_at.label("workspace_created_at"))
    return select(invitations, *named).join(workspaces).where(invitations.c.expires_at > now_ms)


def _invitation(row: Row[Any]) -> Invitation:
    return Invitation(
        id=InvitationId(row.id),
        workspace=Workspace(WorkspaceId(row.workspace_id), row.name, row.workspace_created_at),
        email=row.email,
        role=Role(row.role),
        invited_by=row.invited_by,
        created_at_ms=row.created_at,
        expires_at_ms=row.expires_at,
    )


def invitations_page(db: Connection, workspace_id: WorkspaceId, now_ms: int, page: Page) -> Listing[Invitation]:
    """The open ones, newest first."""
    mine = _open_invitations(now_ms).where(invitations.c.workspace_id == workspace_id)
    rows, total = page_of(db, mine.order_by(invitations.c.created_at.desc(), invitations.c.id.desc()), page)
    return Listing([_invitation(row) for row in rows], page, total)


def invitation(db: Connection, token_hash: bytes, now_ms: int) -> Invitation | None:
    """An open one, of whatever workspace."""
    row = db.execute(_open_invitations(now_ms).where(invitations.c.token_hash == token_hash)).first()
    return None if row is None else _invitation(row)


def end_invitation(db: Connection, workspace_id: WorkspaceId, invitation_id: str) -> bool:
    """Whether there was one to end: of two who ask at once, one is told so."""
    mine = (invitations.c.workspace_id == workspace_id, invitations.c.id == invitation_id)
    return db.execute(delete(invitations).where(*mine)).rowcount > 0


# A user's own account -------------------------------------------------------------------------------------------------


def password_hash(db: Connection, user_id: UserAccountId) -> str | None:
    found: str | None = db.scalar(select(users.c.password_hash).where(users.c.id == user_id))
    return found


def change_password(db: Connection, user_id: UserAccountId, password_hash: str) -> None:
    db.execute(update(users).where(users.c.id == user_id).values(password_hash=password_hash))


def sessions_page(db: Connection, user_id: UserAccountId, token_hash: bytes, now_ms: int, page: Page) -> Listing[OpenSession]:
    """The one seen last first. token_hash: of the session that asks."""
    mine = select(sessions).where(sessions.c.user_id == user_id, sessions.c.expires_at > now_ms)
    rows, total = page_of(db, mine.order_by(sessions.c.last_seen_at.desc(), sessions.c.id.desc()), page)
    found = [
        OpenSession(
            id=SessionId(row.id),
            workspace_id=WorkspaceId(row.workspace_id),
            created_at_ms=row.created_at,
            last_seen_at_ms=row.last_seen_at,
            expires_at_ms=row.expires_at,
            is_current=row.token_hash == token_hash,
        )
        for row in rows
    ]
    return Listing(found, page, total)


def end_session(db: Connection, user_id: UserAccountId, session_id: str) -> bool:
    """Whether the user had such a session."""
    return db.execute(delete(sessions).where(sessions.c.user_id == user_id, sessions.c.id == session_id)).rowcount > 0


def end_other_sessions(db: Connection, user_id: UserAccountId, token_hash: bytes) -> None:
    db.execute(delete(sessions).where(sessions.c.user_id == user_id, sessions.c.token_hash != token_hash))


def _joined(user_id: UserAccountId) -> Select[Any]:
    columns = (workspaces.c.id, workspaces.c.name, workspaces.c.created_at, memberships.c.role, memberships.c.created_at.label("since"))
    joined = select(*columns).join(memberships, memberships.c.workspace_id == workspaces.c.id)
    return joined.where(memberships.c.user_id == user_id).order_by(memberships.c.created_at, workspaces.c.id)


def _workspace(row: Row[Any]) -> Joined:
    return Joined(Workspace(WorkspaceId(row.id), row.name, row.created_at), Role(row.role), row.since)


def joined_page(db: Connection, user_id: UserAccountId, page: Page) -> Listing[Joined]:
    """The workspaces that a user is in, in the order in which they were joined."""
    rows, total = page_of(db, _joined(user_id), page)
    return Listing([_workspace(row) for row in rows], page, total)


def joined(db: Connection, user_id: UserAccountId, workspace_id: str) -> Joined | None:
    row = db.execute(_joined(user_id).where(workspaces.c.id == workspace_id)).first()
    return None if row is None else _workspace(row)


def switch_session(db: Connection, token_hash: bytes, account: SignedIn) -> None:
    """The session goes on in the account's workspace."""
    mine = (sessions.c.token_hash == token_hash, sessions.c.user_id == account.user.id)
    db.execute(update(sessions).where(*mine).values(workspace_id=account.workspace.id))
