"""HTTP routes for confirmations. They require a session."""

from penstock.accounts.confirmations.schema import ConfirmationToken
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.model import CurrentUser
from penstock.base.networks import client_network
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest, address_of

_PATH = "/api/auth/email-confirmations"


@route("POST", _PATH, "Send a link to confirm your address", tag="people")
async def send_confirmation(
    request: AnyRequest, current_user: CurrentUser, confirmations: ConfirmationService
) -> None:
    """Sends a new confirmation email, up to five times a day per address. Sign-up sends the
    first.
    """
    confirmations.send(current_user.user, client_network(address_of(request)))


@route("POST", f"{_PATH}/redeem", "Confirm your address", tag="people")
def confirm_email(
    current_user: CurrentUser, confirmations: ConfirmationService, form: ConfirmationToken
) -> None:
    """Confirms the email address.

    Requires a session of the account and the token from the email, which works once, for a day.
    """
    confirmations.confirm(current_user, form.token.get_secret_value())


ROUTES = (send_confirmation, confirm_email)
