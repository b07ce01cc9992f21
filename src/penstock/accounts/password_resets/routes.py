"""HTTP routes for forgotten passwords."""

from litestar import Response, post
from litestar.di import NamedDependency

from penstock.accounts.origins import require_same_origin
from penstock.accounts.password_resets.schema import PasswordReset, PasswordResetRequest
from penstock.accounts.password_resets.service import PasswordResetService
from penstock.base.fair_queue import FairQueue
from penstock.base.networks import client_network
from penstock.http.answers import no_content
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, address_of
from penstock.settings import Settings

PasswordResets = NamedDependency[PasswordResetService]


@post(
    "/api/auth/password-resets",
    status_code=204,
    opt=described(
        "Request a password reset", body=PasswordResetRequest, open_to_all=True, tag="accounts"
    ),
)
async def request_password_reset(
    request: AnyRequest, password_resets: PasswordResets, settings: NamedDependency[Settings]
) -> Response[None]:
    """Emails a link if the address has an account. The response is the same in either case."""
    require_same_origin(request, settings)
    form = await read_json(request, PasswordResetRequest)
    password_resets.request(form.email, address_of(request))
    return no_content()


@post(
    "/api/auth/password-resets/redeem",
    status_code=204,
    opt=described("Reset a password", body=PasswordReset, open_to_all=True, tag="accounts"),
)
async def reset_password(
    request: AnyRequest,
    password_resets: PasswordResets,
    password_work: NamedDependency[FairQueue],
    settings: NamedDependency[Settings],
) -> Response[None]:
    """Sets a new password and ends all sessions of the user.

    Requires the token from the email, which works once, for an hour.
    """
    require_same_origin(request, settings)
    form = await read_json(request, PasswordReset)
    await password_work.run(
        client_network(address_of(request)),
        password_resets.reset,
        form.token.get_secret_value(),
        form.password.get_secret_value(),
    )
    return no_content()


ROUTES = (request_password_reset, reset_password)
