"""Wire types for a user's own account."""

from typing import Annotated, Self

from pydantic import Field, SecretStr

from penstock.accounts.model import Role
from penstock.accounts.own_account.model import UserSession, WorkspaceMembership
from penstock.accounts.schema import NewPassword, WorkspaceRecord
from penstock.base.clock import iso
from penstock.http.schema import Input, Label, Record


class PasswordChange(Input):
    current: Annotated[SecretStr, Field(max_length=1024)]
    new: NewPassword


class WorkspaceChoice(Input):
    workspace_id: Label


class OpenSessionRecord(Record):
    id: str
    workspace_id: str
    created_at: str
    last_seen_at: Annotated[
        str, Field(description="When the session was last used, accurate to the hour.")
    ]
    expires_at: str
    current: Annotated[bool, Field(description="Whether this session made the request.")]

    @classmethod
    def from_session(cls, session: UserSession) -> Self:
        return cls(
            id=session.id,
            workspace_id=session.workspace_id,
            created_at=iso(session.created_at_ms),
            last_seen_at=iso(session.last_seen_at_ms),
            expires_at=iso(session.expires_at_ms),
            current=session.is_current,
        )


class MembershipRecord(Record):
    workspace: WorkspaceRecord
    role: Role
    since: Annotated[str, Field(description="When the user joined the workspace.")]

    @classmethod
    def from_membership(cls, membership: WorkspaceMembership) -> Self:
        return cls(
            workspace=WorkspaceRecord.from_workspace(membership.workspace),
            role=membership.role,
            since=iso(membership.since_ms),
        )
