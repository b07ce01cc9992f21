"""What goes over the wire about people."""

from typing import Annotated, Self

from pydantic import Field, SecretStr

from penstock.accounts.model import Role
from penstock.accounts.people.model import Invitation, Joined, Member, OpenSession
from penstock.accounts.schema import Email, NewPassword, WorkspaceRecord
from penstock.base.clock import iso
from penstock.http.schema import Input, Name, Record


class RoleChange(Input):
    role: Role


class NewInvitation(Input):
    email: Email
    role: Role = Role.MEMBER


class InvitationToken(Input):
    """Never in an address: those reach logs."""

    token: SecretStr


class PasswordChange(Input):
    current: Annotated[SecretStr, Field(max_length=1024)]
    new: NewPassword


class WorkspaceChoice(Input):
    workspace_id: Name


class MemberRecord(Record):
    user_id: str
    email: str
    role: Role
    since: Annotated[str, Field(description="When the user joined the workspace.")]

    @classmethod
    def of(cls, member: Member) -> Self:
        return cls(user_id=member.user.id, email=member.user.email, role=member.role, since=iso(member.since_ms))


class InvitationRecord(Record):
    id: str
    email: str
    role: Role
    invited_by: str
    created_at: str
    expires_at: str

    @classmethod
    def of(cls, invitation: Invitation) -> Self:
        return cls(
            id=invitation.id,
            email=invitation.email,
            role=invitation.role,
            invited_by=invitation.invited_by,
            created_at=iso(invitation.created_at_ms),
            expires_at=iso(invitation.expires_at_ms),
        )


class NewInvitationRecord(InvitationRecord):
    url: Annotated[str, Field(description="Where the invited sign up, shown this once. Hand it on yourself.", repr=False)]

    @classmethod
    def with_url(cls, invitation: Invitation, url: str) -> Self:
        return cls(**dict(InvitationRecord.of(invitation)), url=url)


class InvitedRecord(Record):
    """What an invitation is for."""

    workspace_name: str
    email: str
    role: Role
    invited_by: str
    expires_at: str
    has_account: Annotated[bool, Field(description="Whether the e-mail address has an account: then log in and accept.")]

    @classmethod
    def of(cls, invitation: Invitation, *, has_account: bool) -> Self:
        return cls(
            workspace_name=invitation.workspace.name,
            email=invitation.email,
            role=invitation.role,
            invited_by=invitation.invited_by,
            expires_at=iso(invitation.expires_at_ms),
            has_account=has_account,
        )


class OpenSessionRecord(Record):
    id: str
    workspace_id: str
    created_at: str
    last_seen_at: Annotated[str, Field(description="To the hour.")]
    expires_at: str
    current: Annotated[bool, Field(description="Whether it is the session that asks.")]

    @classmethod
    def of(cls, session: OpenSession) -> Self:
        return cls(
            id=session.id,
            workspace_id=session.workspace_id,
            created_at=iso(session.created_at_ms),
            last_seen_at=iso(session.last_seen_at_ms),
            expires_at=iso(session.expires_at_ms),
            current=session.is_current,
        )


class JoinedRecord(Record):
    workspace: WorkspaceRecord
    role: Role
    since: Annotated[str, Field(description="When the user joined it.")]

    @classmethod
    def of(cls, joined: Joined) -> Self:
        return cls(workspace=WorkspaceRecord.of(joined.workspace), role=joined.role, since=iso(joined.since_ms))
