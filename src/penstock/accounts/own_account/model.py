"""Plain types for a user's own account. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, Workspace


@dataclass(frozen=True, slots=True)
class WorkspaceMembership:
    """A user's membership in a workspace. since_ms: time when they joined."""

    workspace: Workspace
    role: Role
    since_ms: int
