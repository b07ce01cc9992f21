"""Plain types of people. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, User, Workspace
from penstock.base.ids import InvitationId, SessionId, WorkspaceId


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a workspace."""

    user: User
    role: Role
    since_ms: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A workspace that a user is in."""

    workspace: Workspace
    role: Role
    since_ms: int


@dataclass(frozen=True, slots=True)
class Invitation:
    """An open invitation, without its secret. invited_by: an e-mail address, as it was then."""

    id: InvitationId
    workspace: Workspace
    email: str
    role: Role
    invited_by: str
    created_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that has not ended. last_seen_at_ms: to the hour. is_current: whether it is the one that asks."""

    id: SessionId
    workspace_id: WorkspaceId
    created_at_ms: int
    last_seen_at_ms: int
    expires_at_ms: int
    is_current: bool
