"""HTTP routes for invitations. They require a session: an API key does not identify a person."""

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.invitations.schema import (
    InvitationRecord,
    InvitationToken,
    InvitedRecord,
    NewInvitation,
    NewInvitationRecord,
)
from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.model import CurrentUser
from penstock.accounts.origins import require_same_origin
from penstock.accounts.own_account.schema import MembershipRecord
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.settings import Settings

Me = NamedDependency[CurrentUser]
Invitations = NamedDependency[InvitationService]


@post(
    "/api/settings/invitations",
    opt=described("Invite a person", body=NewInvitation, answers=NewInvitationRecord, tag="people"),
)
async def invite(
    request: AnyRequest, current_user: Me, invitations: Invitations
) -> Response[bytes]:
    """Invites a person to the workspace. Only owners can do this.

    The URL is shown once and expires in seven days. If a mail server is configured, Penstock also
    emails the invitation. Otherwise, send the URL yourself.
    """
    form = await read_json(request, NewInvitation)
    invitation, url, is_mailed = await to_thread.run_sync(
        invitations.invite, current_user, form.email, form.role
    )
    return answer(NewInvitationRecord.with_url(invitation, url, mailed=is_mailed), status=201)


@get(
    "/api/settings/invitations",
    opt=described(
        "Open invitations", answers=InvitationRecord, query=PageQuery, listed=True, tag="people"
    ),
)
async def list_invitations(
    request: AnyRequest, current_user: Me, invitations: Invitations
) -> Response[bytes]:
    """Lists open invitations, newest first."""
    page = read_query(request, PageQuery).pagination
    open_invitations = await to_thread.run_sync(
        invitations.invitations, current_user.workspace.id, page
    )
    return await answer_list(open_invitations, InvitationRecord.from_invitation)


@delete(
    "/api/settings/invitations/{invitation_id:str}",
    opt=described("Withdraw an invitation", tag="people"),
)
async def withdraw_invitation(
    invitation_id: FromPath[str], current_user: Me, invitations: Invitations
) -> Response[None]:
    """Withdraws an open invitation. Only owners can do this."""
    await to_thread.run_sync(invitations.withdraw, current_user, invitation_id)
    return no_content()


@post(
    "/api/auth/invitations/read",
    status_code=200,
    opt=described(
        "Read an invitation",
        body=InvitationToken,
        answers=InvitedRecord,
        open_to_all=True,
        tag="people",
    ),
)
async def read_invitation(
    request: AnyRequest, invitations: Invitations, settings: NamedDependency[Settings]
) -> Response[bytes]:
    """Returns the invitation with this token. A POST keeps the token out of logs."""
    require_same_origin(request, settings)
    form = await read_json(request, InvitationToken)
    invitation, has_account = await to_thread.run_sync(
        invitations.read, form.token.get_secret_value()
    )
    return answer(InvitedRecord.from_invitation(invitation, has_account=has_account))


@post(
    "/api/auth/invitations/accept",
    status_code=200,
    opt=described(
        "Accept an invitation", body=InvitationToken, answers=MembershipRecord, tag="people"
    ),
)
async def accept_invitation(
    request: AnyRequest, current_user: Me, invitations: Invitations
) -> Response[bytes]:
    """Accepts an invitation.

    Requires a session of the invited email address. The session stays in its current workspace.
    """
    form = await read_json(request, InvitationToken)
    return answer(
        MembershipRecord.from_membership(
            await to_thread.run_sync(
                invitations.accept, current_user, form.token.get_secret_value()
            )
        )
    )


ROUTES = (invite, list_invitations, withdraw_invitation, read_invitation, accept_invitation)
