"""HTTP routes for forgotten passwords."""

from penstock.accounts.origins import own_page_route
from penstock.accounts.password_resets.schema import PasswordReset, PasswordResetRequest
from penstock.accounts.password_resets.service import PasswordResetService
from penstock.http.requests import AnyRequest, address_of

_PATH = "/api/auth/password-resets"


@own_page_route("POST", _PATH, "Request a password reset", tag="accounts")
async def request_password_reset(
    request: AnyRequest, password_resets: PasswordResetService, form: PasswordResetRequest
) -> None:
    """Emails a link if the address has an account. The response is the same in either case."""
    password_resets.request(form.email, address_of(request))


@own_page_route(
    "POST", f"{_PATH}/redeem", "Reset a password", runs_in="run_password_work", tag="accounts"
)
def reset_password(password_resets: PasswordResetService, form: PasswordReset) -> None:
    """Sets a new password and ends all sessions of the user.

    Requires the token from the email, which works once, for an hour.
    """
    password_resets.reset(form.token.get_secret_value(), form.password.get_secret_value())


ROUTES = (request_password_reset, reset_password)
