"""Wire types for invitations."""

from typing import Annotated

from pydantic import Field, SecretStr

from penstock.accounts.model import Role
from penstock.accounts.schema import Email
from penstock.http.schema import Input, Iso, Record


class NewInvitation(Input):
    email: Email
    role: Role = Role.MEMBER


class InvitationToken(Input):
    """The token of an invitation. It is sent in the body, because URLs end up in logs."""

    token: SecretStr


class InvitationRecord(Record):
    id: str
    email: str
    role: Role
    invited_by: str
    created_at: Iso
    expires_at: Iso


class NewInvitationRecord(InvitationRecord):
    url: Annotated[str, Field(repr=False)]
    """Sign-up URL for the invited person, shown only once."""

    mailed: bool
    """Whether Penstock also emails the URL."""


class InvitedRecord(Record):
    """An invitation as the invited person sees it."""

    workspace_name: str
    email: str
    role: Role
    invited_by: str
    expires_at: Iso
    has_account: bool
    """Whether the email address has an account. If so, log in and accept the invitation."""
