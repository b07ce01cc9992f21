"""Settings: the members of the workspace, and the reader's own account."""

from litestar import Response

from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.keys.service import KeyService
from penstock.accounts.members.service import MemberService
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.second_factor.service import SecondFactorService
from penstock.accounts.session_cookies import session_token
from penstock.alerts.digests.schema import MAX_FUNNELS, WEEKDAYS
from penstock.alerts.digests.service import DigestService
from penstock.base.errors import NotFound
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.saved.service import FunnelService
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.web.page_routes import page, page_form
from penstock.web.rendering import html
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
    view: View,
    own_account: OwnAccountService,
    second_factors: SecondFactorService,
    digests: DigestService,
    funnels: FunnelService,
) -> Response[bytes]:
    token = session_token(view.request) or ""
    return view.render(
        "people/account.html",
        parts=("sessions", "second_factor", "digest"),
        digest=digests.get(view.reader),
        sends_mails=digests.is_set_up,
        weekdays=[(weekday, weekday.capitalize()) for weekday in WEEKDAYS],
        hours=[(hour, f"{hour:02}:00") for hour in range(24)],
        funnel_names=funnels.names(view.workspace_id),
        max_funnels=MAX_FUNNELS,
        second_factor=second_factors.state(view.reader.user),
        sessions=own_account.sessions(view.reader.user, token, view.query(PageQuery).pagination),
        session_days=view.settings.session_days,
    )


@page("/unsubscribe")
def unsubscribe_page(request: AnyRequest, digests: DigestService) -> Response[bytes]:
    """The page of the link in a digest. It changes nothing, because programs that scan emails open
    its links.
    """
    token = request.query_params.get("token", "")
    return _unsubscribe_page(request, token, is_valid=digests.is_valid(token), status=200)


@page_form("/unsubscribe")
def unsubscribe(request: AnyRequest, digests: DigestService) -> Response[bytes]:
    """End a subscription, for the page above and for mail programs (RFC 8058)."""
    token = request.query_params.get("token", "")
    try:
        digests.unsubscribe_by(token)
    except NotFound:
        return _unsubscribe_page(request, token, is_valid=False, status=404)
    return _unsubscribe_page(request, token, is_valid=True, is_done=True, status=200)


def _unsubscribe_page(
    request: AnyRequest, token: str, *, is_valid: bool, is_done: bool = False, status: int
) -> Response[bytes]:
    content = {"token": token, "is_valid": is_valid, "is_done": is_done}
    return html(request, "session/unsubscribe.html", content, status=status)


ROUTES = (members, account, unsubscribe_page, unsubscribe)
