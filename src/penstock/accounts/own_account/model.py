"""Plain types for a user's own account. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, Workspace
from penstock.base.ids import SessionId, WorkspaceId


@dataclass(frozen=True, slots=True)
class WorkspaceMembership:
    """A user's membership in a workspace. since_ms: time when they joined."""

    workspace: Workspace
    role: Role
    since_ms: int


@dataclass(frozen=True, slots=True)
class UserSession:
    """An open session.

    last_seen_at_ms: accurate to the hour. is_current: whether this session made the request.
    """

    id: SessionId
    workspace_id: WorkspaceId
    created_at_ms: int
    last_seen_at_ms: int
    expires_at_ms: int
    is_current: bool
