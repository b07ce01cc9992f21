"""Wire types for invitations."""

from typing import Annotated, Self

from pydantic import Field, SecretStr

from penstock.accounts.invitations.model import Invitation
from penstock.accounts.model import Role
from penstock.accounts.schema import Email
from penstock.base.clock import iso
from penstock.http.schema import Input, Record


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
    created_at: str
    expires_at: str

    @classmethod
    def from_invitation(cls, invitation: Invitation) -> Self:
        return cls(
            id=invitation.id,
            email=invitation.email,
            role=invitation.role,
            invited_by=invitation.invited_by,
            created_at=iso(invitation.created_at_ms),
            expires_at=iso(invitation.expires_at_ms),
        )


class NewInvitationRecord(InvitationRecord):
    url: Annotated[
        str,
        Field(
            description="Sign-up URL for the invited person, shown only once.",
            repr=False,
        ),
    ]

    mailed: Annotated[bool, Field(description="Whether Penstock also emails the URL.")]

    @classmethod
    def with_url(cls, invitation: Invitation, url: str, *, mailed: bool) -> Self:
        return cls(**dict(InvitationRecord.from_invitation(invitation)), url=url, mailed=mailed)


class InvitedRecord(Record):
    """An invitation as the invited person sees it."""

    workspace_name: str
    email: str
    role: Role
    invited_by: str
    expires_at: str
    has_account: Annotated[
        bool,
        Field(
            description="Whether the email address has an account. If so, log in and accept the "
            "invitation."
        ),
    ]

    @classmethod
    def from_invitation(cls, invitation: Invitation, *, has_account: bool) -> Self:
        return cls(
            workspace_name=invitation.workspace.name,
            email=invitation.email,
            role=invitation.role,
            invited_by=invitation.invited_by,
            expires_at=iso(invitation.expires_at_ms),
            has_account=has_account,
        )
