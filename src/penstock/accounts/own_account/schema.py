"""Wire types for a user's own account."""

from typing import Annotated

from pydantic import Field, SecretStr

from penstock.accounts.model import Role
from penstock.accounts.schema import NewPassword, WorkspaceRecord
from penstock.http.schema import Input, Iso, Label, Record


class PasswordChange(Input):
    current: Annotated[SecretStr, Field(max_length=1024)]
    new: NewPassword


class WorkspaceChoice(Input):
    workspace_id: Label


class OpenSessionRecord(Record):
    id: str
    workspace_id: str
    created_at: Iso
    last_seen_at: Iso
    """When the session was last used, accurate to the hour."""
    expires_at: Iso
    current: bool
    """Whether this session made the request."""


class MembershipRecord(Record):
    workspace: WorkspaceRecord
    role: Role
    since: Iso
    """When the user joined the workspace."""
