"""HTTP routes for confirmations. They require a session."""

from anyio import to_thread
from litestar import Response, post
from litestar.di import NamedDependency

from penstock.accounts.confirmations.schema import ConfirmationToken
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.model import CurrentUser
from penstock.base.networks import client_network
from penstock.http.answers import no_content
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, address_of

Me = NamedDependency[CurrentUser]
Confirmations = NamedDependency[ConfirmationService]


@post(
    "/api/auth/email-confirmations",
    status_code=204,
    opt=described("Send a link to confirm your address", tag="people"),
)
async def send_confirmation(
    request: AnyRequest, current_user: Me, confirmations: Confirmations
) -> Response[None]:
    """Sends a new confirmation email, up to five times a day per address. Sign-up sends the
    first.
    """
    confirmations.send(current_user.user, client_network(address_of(request)))
    return no_content()


@post(
    "/api/auth/email-confirmations/redeem",
    status_code=204,
    opt=described("Confirm your address", body=ConfirmationToken, tag="people"),
)
async def confirm_email(
    request: AnyRequest, current_user: Me, confirmations: Confirmations
) -> Response[None]:
    """Confirms the email address.

    Requires a session of the account and the token from the email, which works once, for a day.
    """
    form = await read_json(request, ConfirmationToken)
    await to_thread.run_sync(confirmations.confirm, current_user, form.token.get_secret_value())
    return no_content()


ROUTES = (send_confirmation, confirm_email)
