"""HTTP routes for the second factor. They require a session."""

from penstock.accounts.model import CurrentUser
from penstock.accounts.password_work import password_route
from penstock.accounts.schema import CodeForm
from penstock.accounts.second_factor.schema import (
    EnrolmentRecord,
    RecoveryCodesRecord,
    SecondFactorBegin,
    SecondFactorProof,
    SecondFactorRecord,
)
from penstock.accounts.second_factor.service import SecondFactorService
from penstock.accounts.session_cookies import session_token
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest

_PATH = "/api/auth/second-factor"


@route("GET", _PATH, "Your second factor", tag="people")
def read_second_factor(
    current_user: CurrentUser, second_factors: SecondFactorService
) -> SecondFactorRecord:
    return second_factors.state(current_user.user)


@password_route("POST", _PATH, "Start the setup of a second factor", tag="people")
def begin_second_factor(
    current_user: CurrentUser, second_factors: SecondFactorService, form: SecondFactorBegin
) -> EnrolmentRecord:
    """Returns a new secret for an authenticator app, shown once. It is not used until it is
    confirmed.
    """
    return second_factors.begin(current_user, form.password.get_secret_value())


@route("POST", f"{_PATH}/confirm", "Turn on the second factor", status=200, tag="people")
def confirm_second_factor(
    request: AnyRequest,
    current_user: CurrentUser,
    second_factors: SecondFactorService,
    form: CodeForm,
) -> RecoveryCodesRecord:
    """Turns the second factor on, returns ten recovery codes, and ends your other sessions.

    Requires a code from the authenticator app.
    """
    token, code = session_token(request) or "", form.code.get_secret_value()
    codes = second_factors.confirm(current_user, token, code)
    return RecoveryCodesRecord(recovery_codes=codes)


@password_route("POST", f"{_PATH}/recovery-codes", "New recovery codes", tag="people")
def renew_recovery_codes(
    current_user: CurrentUser, second_factors: SecondFactorService, proof: SecondFactorProof
) -> RecoveryCodesRecord:
    """Creates new recovery codes. Requires the password or a code. The earlier codes no longer
    work.
    """
    codes = second_factors.renew_recovery_codes(current_user, *_secrets_of(proof))
    return RecoveryCodesRecord(recovery_codes=codes)


@password_route("POST", f"{_PATH}/turn-off", "Turn off the second factor", tag="people")
def turn_off_second_factor(
    current_user: CurrentUser, second_factors: SecondFactorService, proof: SecondFactorProof
) -> None:
    """Turns the second factor off. Requires the password or a code."""
    second_factors.turn_off(current_user, *_secrets_of(proof))


@route(
    "DELETE",
    "/api/settings/members/{user_id:str}/second-factor",
    "Reset a member's second factor",
    tag="people",
)
def reset_second_factor(
    current_user: CurrentUser, second_factors: SecondFactorService, user_id: str
) -> None:
    """Turns off the second factor of a member who has lost it. Only owners can do this.

    The member can then log in with the password alone.
    """
    second_factors.reset(current_user, user_id)


def _secrets_of(proof: SecondFactorProof) -> tuple[str | None, str | None]:
    """Return the password and the code, one of which is None."""
    return (
        proof.password.get_secret_value() if proof.password else None,
        proof.code.get_secret_value() if proof.code else None,
    )


ROUTES = (
    read_second_factor,
    begin_second_factor,
    confirm_second_factor,
    renew_recovery_codes,
    turn_off_second_factor,
    reset_second_factor,
)
