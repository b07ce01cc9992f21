"""The second factor: set up, log in with it, recovery codes, turn off, reset by an owner."""

from typing import Any

import httpx
import pyotp
import pytest
from sqlalchemy import select

from penstock.app import Services
from penstock.base.clock import system_clock
from penstock.metadb.tables import pending_log_ins, recovery_codes, second_factors
from tests.answers import body_of, columns_of, faults, problem
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.tenant import (
    PASSWORD,
    Tenant,
    audit_log,
    create_invitation,
    join,
    log_in,
    new_browser,
    token_of,
)

STEP_S = 30


@pytest.fixture
def clock(clock: ShiftedClock) -> ShiftedClock:
    """The beginning of a step, so that no test meets the next one."""
    clock.ahead_ms = (STEP_S - system_clock() // 1000 % STEP_S) * 1000
    return clock


class Phone:
    """An authenticator app, whose clock is that of the service."""

    def __init__(self, secret: str, clock: ShiftedClock) -> None:
        self._totp, self._clock = pyotp.TOTP(secret), clock

    def code(self, seconds: int = 0) -> str:
        """The code that it shows now, or so many seconds later."""
        return self._totp.at(self._clock() // 1000 + seconds)

    def wrong_code(self) -> str:
        near = {self.code(seconds) for seconds in (-60, -30, 0, 30, 60)}
        return next(code for code in map("{:06}".format, range(10)) if code not in near)


def enrol(browser: httpx.Client) -> dict[str, Any]:
    return body_of(browser.post("/api/auth/second-factor", json={"password": PASSWORD}), 201)


def turn_on(browser: httpx.Client, clock: ShiftedClock) -> tuple[Phone, list[str]]:
    """Returns the app and the recovery codes. The next code is a step later."""
    phone = Phone(enrol(browser)["secret"], clock)
    confirmed = browser.post("/api/auth/second-factor/confirm", json={"code": phone.code()})
    clock.advance(seconds=2 * STEP_S)
    return phone, body_of(confirmed)["recoveryCodes"]


def enter_password(tenant: Tenant, password: str = PASSWORD) -> tuple[httpx.Client, httpx.Response]:
    browser = new_browser(tenant)
    return browser, log_in(browser, tenant.email, password)


def enter_code(browser: httpx.Client, code: str) -> httpx.Response:
    return browser.post("/api/auth/login/code", json={"code": code})


def state(browser: httpx.Client) -> dict[str, Any]:
    return browser.get("/api/auth/second-factor").json()


def actions(tenant: Tenant) -> list[tuple[str, str]]:
    return columns_of(audit_log(tenant.browser), "action", "target")


def test_log_in_asks_for_a_code_once_the_app_is_confirmed(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    assert state(workspace.browser) == {"enabled": False, "enabledAt": None, "recoveryCodesLeft": 0}
    enrolment = enrol(workspace.browser)
    assert enrolment["uri"].startswith("otpauth://totp/Penstock:")
    assert enrolment["secret"] in enrolment["uri"]
    assert enrolment["qrCode"].startswith("data:image/svg+xml")
    assert enter_password(workspace)[1].status_code == 200, "not confirmed yet"
    phone, codes = turn_on(workspace.browser, clock)
    assert len(set(codes)) == 10
    assert state(workspace.browser)["recoveryCodesLeft"] == 10

    browser, answer = enter_password(workspace)
    assert problem(answer) == (401, "second_factor_required")
    assert "service_session" not in browser.cookies
    assert browser.get("/api/auth/session").status_code == 401
    assert enter_password(workspace, "wrong password")[1].json()["code"] == "wrong_login"
    assert body_of(enter_code(browser, phone.code())) == browser.get("/api/auth/session").json()
    assert "service_pending_log_in" not in browser.cookies


def test_to_set_it_up_needs_the_password_and_a_code_and_ends_the_other_sessions(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    other, _ = enter_password(workspace)
    wrong = workspace.browser.post("/api/auth/second-factor", json={"password": "wrong"})
    assert faults(wrong) == {"password": "wrong_password"}
    nothing = workspace.browser.post("/api/auth/second-factor/confirm", json={"code": "123456"})
    assert problem(nothing) == (409, "second_factor_not_begun")
    phone = Phone(enrol(workspace.browser)["secret"], clock)
    for code in (phone.wrong_code(), phone.code(-120), "abcdef", "١٢٣٤٥٦", "1"):
        answer = workspace.browser.post("/api/auth/second-factor/confirm", json={"code": code})
        assert faults(answer) == {"code": "wrong_code"}
    assert state(workspace.browser)["enabled"] is False
    turn_on(workspace.browser, clock)
    assert other.get("/api/auth/session").status_code == 401
    again = workspace.browser.post("/api/auth/second-factor", json={"password": PASSWORD})
    assert problem(again) == (409, "second_factor_on")


@pytest.mark.every_database
def test_a_code_works_once_within_a_step_before_or_after_its_own(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    phone, _ = turn_on(workspace.browser, clock)
    late = phone.code()
    clock.advance(seconds=STEP_S)
    assert enter_code(enter_password(workspace)[0], late).status_code == 200
    browser, _ = enter_password(workspace)
    assert problem(enter_code(browser, late)) == (401, "wrong_login_code")
    early = phone.code(STEP_S)
    assert enter_code(browser, f" {early[:3]} {early[3:]}").status_code == 200
    browser, _ = enter_password(workspace)
    assert problem(enter_code(browser, phone.code())) == (401, "wrong_login_code"), "an older one"
    assert problem(enter_code(browser, phone.code(3 * STEP_S))) == (401, "wrong_login_code")


def test_a_recovery_code_works_once(workspace: Tenant, clock: ShiftedClock) -> None:
    _, codes = turn_on(workspace.browser, clock)
    assert enter_code(enter_password(workspace)[0], codes[3]).status_code == 200
    browser, _ = enter_password(workspace)
    assert problem(enter_code(browser, codes[3])) == (401, "wrong_login_code")
    assert enter_code(browser, codes[4].upper().replace("-", " ")).status_code == 200
    assert state(workspace.browser)["recoveryCodesLeft"] == 8


def test_a_pending_log_in_is_of_one_browser_ends_after_five_minutes_and_works_once(
    workspace: Tenant, clock: ShiftedClock, services: Services
) -> None:
    phone, _ = turn_on(workspace.browser, clock)
    browser, answer = enter_password(workspace)
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert problem(enter_code(new_browser(workspace), phone.code())) == (401, "log_in_expired")
    pending = browser.cookies["service_pending_log_in"]
    assert enter_code(browser, phone.code()).status_code == 200
    clock.advance(seconds=STEP_S)
    thief = new_browser(workspace)
    thief.cookies.set("service_pending_log_in", pending)
    assert problem(enter_code(thief, phone.code())) == (401, "log_in_expired")

    late, _ = enter_password(workspace)
    clock.advance(seconds=301)
    assert problem(enter_code(late, phone.code())) == (401, "log_in_expired")
    enter_password(workspace)
    with services.database.read() as db:
        assert len(db.execute(select(pending_log_ins)).all()) == 1, "expired ones are deleted"


@pytest.mark.every_database
def test_five_wrong_codes_end_a_pending_log_in_and_twenty_an_hour_block_the_codes(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    phone, codes = turn_on(workspace.browser, clock)
    for _ in range(4):
        browser, _ = enter_password(workspace)
        for _ in range(5):
            assert problem(enter_code(browser, phone.wrong_code())) == (401, "wrong_login_code")
        assert problem(enter_code(browser, phone.code())) == (401, "log_in_expired")
        clock.advance(seconds=301)
    browser, _ = enter_password(workspace)
    blocked = enter_code(browser, codes[0])
    assert problem(blocked) == (429, "rate_limited")
    assert blocked.headers["ratelimit-policy"] == '"second_factor";q=20;w=3600'
    clock.advance(seconds=3600)
    browser, _ = enter_password(workspace)
    assert enter_code(browser, codes[0]).status_code == 200


def test_wrong_codes_count_as_failed_log_ins_although_the_password_was_right(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    phone, _ = turn_on(workspace.browser, clock)
    for _ in range(2):
        browser, _ = enter_password(workspace)
        for _ in range(5):
            enter_code(browser, phone.wrong_code())
    limited = enter_password(workspace)[1]
    assert (limited.status_code, limited.headers["ratelimit-policy"]) == (429, '"login";q=10;w=300')


def test_a_new_password_ends_pending_log_ins(workspace: Tenant, clock: ShiftedClock) -> None:
    phone, _ = turn_on(workspace.browser, clock)
    thief, _ = enter_password(workspace)
    change = {"current": PASSWORD, "new": "another horse battery"}
    assert workspace.browser.post("/api/auth/password", json=change).status_code == 204
    assert problem(enter_code(thief, phone.code())) == (401, "log_in_expired")


@cases("by", ["password", "code", "recovery code"])
def test_it_is_turned_off_with_the_password_or_a_code(
    workspace: Tenant, clock: ShiftedClock, by: str
) -> None:
    phone, codes = turn_on(workspace.browser, clock)
    path = "/api/auth/second-factor/turn-off"
    assert faults(workspace.browser.post(path, json={})) == {"": "required"}
    for wrong in ({"password": "wrong"}, {"code": phone.wrong_code()}):
        answer = workspace.browser.post(path, json=wrong)
        assert (answer.status_code, state(workspace.browser)["enabled"]) == (422, True)
    proof = {
        "password": {"password": PASSWORD},
        "code": {"code": phone.code()},
        "recovery code": {"code": codes[0]},
    }[by]
    assert workspace.browser.post(path, json=proof).status_code == 204
    assert state(workspace.browser)["recoveryCodesLeft"] == 0
    assert enter_password(workspace)[1].status_code == 200
    off = workspace.browser.post(path, json={"password": PASSWORD})
    assert problem(off) == (409, "second_factor_off")


def test_new_recovery_codes_replace_the_earlier_ones(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    _, old = turn_on(workspace.browser, clock)
    answer = workspace.browser.post(
        "/api/auth/second-factor/recovery-codes", json={"password": PASSWORD}
    )
    new = body_of(answer, 201)["recoveryCodes"]
    assert not set(new) & set(old)
    browser, _ = enter_password(workspace)
    assert problem(enter_code(browser, old[0])) == (401, "wrong_login_code")
    assert enter_code(browser, new[0]).status_code == 200


def test_an_owner_resets_the_second_factor_of_a_member_of_no_other_workspace(
    workspace: Tenant, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    member = join(workspace)
    user = member.get("/api/auth/session").json()["user"]
    turn_on(member, clock)
    turn_on(other_workspace.browser, clock)
    listed = workspace.browser.get("/api/settings/members").json()["data"]
    assert {member["email"]: member["secondFactor"] for member in listed} == {
        workspace.email: False,
        user["email"]: True,
    }
    path = f"/api/settings/members/{user['id']}/second-factor"
    owner = workspace.browser.get("/api/auth/session").json()["user"]["id"]
    refused = member.delete(f"/api/settings/members/{owner}/second-factor")
    assert problem(refused) == (403, "owner_required")
    assert other_workspace.browser.delete(path).status_code == 404
    own = workspace.browser.delete(f"/api/settings/members/{owner}/second-factor")
    assert problem(own) == (403, "own_second_factor")
    assert workspace.browser.delete(path).status_code == 204
    assert problem(workspace.browser.delete(path)) == (409, "second_factor_off")
    assert log_in(new_browser(workspace), user["email"]).status_code == 200

    token = token_of(create_invitation(workspace, email=other_workspace.email))
    other_workspace.browser.post("/api/auth/invitations/accept", json={"token": token})
    elsewhere = other_workspace.browser.get("/api/auth/session").json()["user"]["id"]
    answer = workspace.browser.delete(f"/api/settings/members/{elsewhere}/second-factor")
    assert problem(answer) == (409, "member_elsewhere")
    assert state(other_workspace.browser)["enabled"] is True


def test_secrets_are_encrypted_or_hashed_and_everything_is_in_the_audit_log(
    workspace: Tenant, clock: ShiftedClock, services: Services
) -> None:
    user_id = workspace.browser.get("/api/auth/session").json()["user"]["id"]
    who = f"{user_id} {workspace.email}"
    enrolment = enrol(workspace.browser)
    phone, codes = turn_on(workspace.browser, clock)
    browser, _ = enter_password(workspace)
    enter_code(browser, phone.wrong_code())
    services.audit_log.write_queued()
    with services.database.read() as db:
        stored = [
            tuple(row)
            for table in (second_factors, recovery_codes, pending_log_ins)
            for row in db.execute(select(table))
        ]
    text = str(stored)
    assert len(stored) == 12
    cookie = browser.cookies["service_pending_log_in"]
    for secret in (enrolment["secret"], *codes, *(code.replace("-", "") for code in codes), cookie):
        assert secret not in text
    enter_code(browser, phone.code())
    proof = {"password": PASSWORD}
    workspace.browser.post("/api/auth/second-factor/recovery-codes", json=proof)
    workspace.browser.post("/api/auth/second-factor/turn-off", json=proof)
    assert actions(workspace)[:5] == [
        ("second_factor_disabled", who),
        ("recovery_codes_created", who),
        ("signed_in", who),
        ("sign_in_failed", f"{who}: wrong code"),
        ("second_factor_enabled", who),
    ]


def test_the_account_of_a_removed_member_goes_with_the_second_factor(
    workspace: Tenant, clock: ShiftedClock, services: Services
) -> None:
    member = join(workspace)
    turn_on(member, clock)
    user_id = member.get("/api/auth/session").json()["user"]["id"]
    assert workspace.browser.delete(f"/api/settings/members/{user_id}").status_code == 204
    with services.database.read() as db:
        for table in (second_factors, recovery_codes):
            assert db.execute(select(table)).all() == []
