"""HTTP routes for the second factor. They require a session."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import CurrentUser
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
from penstock.base.fair_queue import FairQueue
from penstock.base.networks import client_network
from penstock.http.answers import answer, no_content
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, address_of

Me = NamedDependency[CurrentUser]
SecondFactors = NamedDependency[SecondFactorService]
Passwords = NamedDependency[FairQueue]


@get(
    "/api/auth/second-factor",
    opt=described("Your second factor", answers=SecondFactorRecord, tag="people"),
)
async def read_second_factor(current_user: Me, second_factors: SecondFactors) -> Response[bytes]:
    state = await to_thread.run_sync(second_factors.state, current_user.user)
    return answer(SecondFactorRecord.from_state(state))


@post(
    "/api/auth/second-factor",
    opt=described(
        "Start the setup of a second factor",
        body=SecondFactorBegin,
        answers=EnrolmentRecord,
        tag="people",
    ),
)
async def begin_second_factor(
    request: AnyRequest,
    current_user: Me,
    second_factors: SecondFactors,
    password_work: Passwords,
) -> Response[bytes]:
    """Returns a new secret for an authenticator app, shown once. It is not used until it is
    confirmed.
    """
    form = await read_json(request, SecondFactorBegin)
    use_case = partial(second_factors.begin, current_user, form.password.get_secret_value())
    enrolment = await password_work.run(client_network(address_of(request)), use_case)
    return answer(EnrolmentRecord.from_enrolment(enrolment), status=201)


@post(
    "/api/auth/second-factor/confirm",
    status_code=200,
    opt=described(
        "Turn on the second factor",
        body=CodeForm,
        answers=RecoveryCodesRecord,
        tag="people",
    ),
)
async def confirm_second_factor(
    request: AnyRequest, current_user: Me, second_factors: SecondFactors
) -> Response[bytes]:
    """Turns the second factor on, returns ten recovery codes, and ends your other sessions.

    Requires a code from the authenticator app.
    """
    form = await read_json(request, CodeForm)
    codes = await to_thread.run_sync(
        second_factors.confirm,
        current_user,
        session_token(request) or "",
        form.code.get_secret_value(),
    )
    return answer(RecoveryCodesRecord(recovery_codes=codes))


@post(
    "/api/auth/second-factor/recovery-codes",
    opt=described(
        "New recovery codes", body=SecondFactorProof, answers=RecoveryCodesRecord, tag="people"
    ),
)
async def renew_recovery_codes(
    request: AnyRequest,
    current_user: Me,
    second_factors: SecondFactors,
    password_work: Passwords,
) -> Response[bytes]:
    """Creates new recovery codes. Requires the password or a code. The earlier codes no longer
    work.
    """
    password, code = _secrets_of(await read_json(request, SecondFactorProof))
    use_case = partial(second_factors.renew_recovery_codes, current_user, password, code)
    codes = await password_work.run(client_network(address_of(request)), use_case)
    return answer(RecoveryCodesRecord(recovery_codes=codes), status=201)


@post(
    "/api/auth/second-factor/turn-off",
    status_code=204,
    opt=described("Turn off the second factor", body=SecondFactorProof, tag="people"),
)
async def turn_off_second_factor(
    request: AnyRequest,
    current_user: Me,
    second_factors: SecondFactors,
    password_work: Passwords,
) -> Response[None]:
    """Turns the second factor off. Requires the password or a code."""
    password, code = _secrets_of(await read_json(request, SecondFactorProof))
    use_case = partial(second_factors.turn_off, current_user, password, code)
    await password_work.run(client_network(address_of(request)), use_case)
    return no_content()


@delete(
    "/api/settings/members/{user_id:str}/second-factor",
    opt=described("Reset a member's second factor", tag="people"),
)
async def reset_second_factor(
    user_id: FromPath[str], current_user: Me, second_factors: SecondFactors
) -> Response[None]:
    """Turns off the second factor of a member who has lost it. Only owners can do this.

    The member can then log in with the password alone.
    """
    await to_thread.run_sync(second_factors.reset, current_user, user_id)
    return no_content()


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
