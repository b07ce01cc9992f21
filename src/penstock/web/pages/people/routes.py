"""Settings: the members of the workspace, and the reader's own account."""

from litestar import Response

from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.keys.service import KeyService
from penstock.accounts.members.service import MemberService
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.second_factor.service import SecondFactorService
from penstock.accounts.session_cookies import session_token
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.http.schema import PageQuery
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/settings/members")
def members(
    view: View, members: MemberService, invitations: InvitationService, key_service: KeyService
) -> Response[bytes]:
    return view.render(
        "people/members.html",
        parts=("members", "invitations"),
        members=members.members(view.workspace_id, view.query(PageQuery).pagination),
        invitations=invitations.invitations(view.workspace_id, Page(1, MAX_PAGE_SIZE)),
        invitations_are_mailed=invitations.are_mailed(view.reader.user),
        key_counts=key_service.counts_by_creator(view.workspace_id),
    )


@page("/settings/account")
def account(
    view: View, own_account: OwnAccountService, second_factors: SecondFactorService
) -> Response[bytes]:
    token = session_token(view.request) or ""
    return view.render(
        "people/account.html",
        parts=("sessions", "second_factor"),
        second_factor=second_factors.state(view.reader.user),
        sessions=own_account.sessions(view.reader.user, token, view.query(PageQuery).pagination),
        session_days=view.settings.session_days,
    )


ROUTES = (members, account)
