"""HTTP routes for invitations. They require a session: an API key does not identify a person."""

from penstock.accounts.invitations.schema import (
    InvitationRecord,
    InvitationToken,
    InvitedRecord,
    NewInvitation,
    NewInvitationRecord,
)
from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.model import CurrentUser
from penstock.accounts.origins import own_page_route
from penstock.accounts.own_account.schema import MembershipRecord
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery

_ALL = "/api/settings/invitations"
_ONE = "/api/settings/invitations/{invitation_id:str}"


@route("POST", _ALL, "Invite a person", tag="people")
def invite(
    current_user: CurrentUser, invitations: InvitationService, form: NewInvitation
) -> NewInvitationRecord:
    """Invites a person to the workspace. Only owners can do this.

    The URL is shown once and expires in seven days. If a mail server is configured, Penstock also
    emails the invitation. Otherwise, send the URL yourself.
    """
    return invitations.invite(current_user, form.email, form.role)


@route("GET", _ALL, "Open invitations", tag="people")
def list_invitations(
    current_user: CurrentUser, invitations: InvitationService, query: PageQuery
) -> Listing[InvitationRecord]:
    """Lists open invitations, newest first."""
    open_invitations = invitations.invitations(current_user.workspace.id, query.pagination)
    return open_invitations.map(InvitationRecord.from_object)


@route("DELETE", _ONE, "Withdraw an invitation", tag="people")
def withdraw_invitation(
    current_user: CurrentUser, invitations: InvitationService, invitation_id: str
) -> None:
    """Withdraws an open invitation. Only owners can do this."""
    invitations.withdraw(current_user, invitation_id)


@own_page_route(
    "POST", "/api/auth/invitations/read", "Read an invitation", status=200, tag="people"
)
def read_invitation(invitations: InvitationService, form: InvitationToken) -> InvitedRecord:
    """Returns the invitation with this token. A POST keeps the token out of logs."""
    invitation, has_account = invitations.read(form.token.get_secret_value())
    return InvitedRecord.from_object(invitation, has_account=has_account)


@route("POST", "/api/auth/invitations/accept", "Accept an invitation", status=200, tag="people")
def accept_invitation(
    current_user: CurrentUser, invitations: InvitationService, form: InvitationToken
) -> MembershipRecord:
    """Accepts an invitation.

    Requires a session of the invited email address. The session stays in its current workspace.
    """
    return invitations.accept(current_user, form.token.get_secret_value())


ROUTES = (invite, list_invitations, withdraw_invitation, read_invitation, accept_invitation)
