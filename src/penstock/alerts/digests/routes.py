"""HTTP routes for your own subscription to the weekly digest. They require a session."""

from penstock.accounts.model import CurrentUser
from penstock.alerts.digests.schema import DigestIn, DigestRecord
from penstock.alerts.digests.service import DigestService
from penstock.http.handlers import route

_PATH = "/api/auth/digest"


@route("GET", _PATH, "Your weekly digest", tag="alerts")
def read_digest(current_user: CurrentUser, digests: DigestService) -> DigestRecord:
    """Returns your subscription in this workspace."""
    return digests.get(current_user)


@route("PUT", _PATH, "Subscribe to the weekly digest", tag="alerts")
def subscribe_to_digest(
    current_user: CurrentUser, digests: DigestService, form: DigestIn
) -> DigestRecord:
    """Subscribes you to a weekly email about this workspace, or changes your subscription.

    Requires a confirmed email address and a server that sends emails.
    """
    return digests.subscribe(current_user, form)


@route("DELETE", _PATH, "Unsubscribe from the weekly digest", tag="alerts")
def unsubscribe_from_digest(current_user: CurrentUser, digests: DigestService) -> None:
    """Ends your subscription in this workspace. Each email also has a link that does so."""
    digests.unsubscribe(current_user)


ROUTES = (read_digest, subscribe_to_digest, unsubscribe_from_digest)
