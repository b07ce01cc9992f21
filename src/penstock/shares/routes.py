"""HTTP routes for shared reports. The public page is one of `penstock.web`."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.shares.schema import NewShare, NewShareRecord, ShareRecord, SharesQuery
from penstock.shares.service import ShareService


@route("POST", "/api/shares", "Share a report", tag="shares")
def share_report(caller: Caller, shares: ShareService, form: NewShare) -> NewShareRecord:
    """Creates a link that anybody can open, without an account and until it expires. The link is
    shown only once.

    The report's definition follows the saved funnel; its parameters stay as they are.
    """
    return shares.create(caller, form)


@route("GET", "/api/shares", "Shared reports", tag="shares")
def list_shares(caller: Caller, shares: ShareService, query: SharesQuery) -> Listing[ShareRecord]:
    """Lists shared reports, newest first. Expired ones disappear after 30 days."""
    return shares.page(caller.workspace_id, query.pagination, query.funnel_id)


@route("DELETE", "/api/shares/{share_id:str}", "Revoke a shared report", tag="shares")
def revoke_share(caller: Caller, shares: ShareService, share_id: str) -> None:
    """Ends the link at once."""
    shares.revoke(caller, share_id)


ROUTES = (share_report, list_shares, revoke_share)
