"""Examples for the API reference: log-ins, passwords, second factors and members."""

import re

import httpx
import pyotp

from tests.docsite.recorder import Json, Recorder
from tests.tenant import PASSWORD, create_invitation, join, new_browser, token_of
from tests.waiting import eventually

_EMAIL, _NEW_PASSWORD = "cleo@example.com", "another horse battery"
_PAST_A_STEP_S = 60
"""Seconds after which an authenticator app certainly shows a new code."""


def use_accounts(recorder: Recorder) -> None:
    """Use each route for accounts and members once, from a sign-up to the end of a membership."""
    browser = _sign_up(recorder)
    member = _join(recorder, browser)
    browser = _log_in_and_out(recorder, browser)
    _use_second_factor(recorder, browser)
    _reset_password(recorder)
    owner = recorder.tenant.browser
    path = "/api/settings/members/{user_id}"
    recorder.call("PATCH", path, {"role": "owner"}, client=owner, **member)
    recorder.call("DELETE", path, query={"revokeKeys": "true"}, client=owner, **member)


def _sign_up(recorder: Recorder) -> httpx.Client:
    call, browser = recorder.call, new_browser(recorder.tenant)
    form = {"email": _EMAIL, "password": PASSWORD, "workspaceName": "Cleo's shop"}
    call("POST", "/api/auth/signup", form, client=browser)
    call("POST", "/api/auth/email-confirmations", client=browser)
    token = _mailed_token(recorder, "Confirm your address for Penstock", r"\?token=([\w-]+)")
    redeem = "/api/auth/email-confirmations/redeem"
    call("POST", redeem, {"token": token}, client=browser)
    digest = {"weekday": "monday", "hour": 8, "timezone": "Europe/Berlin"}
    call("PUT", "/api/auth/digest", digest, client=browser)
    call("GET", "/api/auth/digest", client=browser)
    call("DELETE", "/api/auth/digest", client=browser)
    return browser


def _mailed_token(recorder: Recorder, subject: str, pattern: str) -> str:
    def token() -> str | None:
        for mail in recorder.mails.mails:
            if mail["To"] == _EMAIL and mail["Subject"] == subject:
                [text] = re.findall(pattern, mail.get_content())
                return str(text)
        return None

    return str(eventually(token))


def _join(recorder: Recorder, browser: httpx.Client) -> Json:
    """Accept an invitation to the workspace. Returns the path parameter of the member."""
    call = recorder.call
    token = {"token": token_of(create_invitation(recorder.tenant, email=_EMAIL))}
    call("POST", "/api/auth/invitations/read", token, client=new_browser(recorder.tenant))
    call("POST", "/api/auth/invitations/accept", token, client=browser)
    choice = {"workspaceId": recorder.tenant.id}
    account = call("POST", "/api/auth/workspace", choice, client=browser)
    return {"user_id": account["user"]["id"]}


def _log_in(recorder: Recorder) -> httpx.Client:
    browser = new_browser(recorder.tenant)
    browser.post("/api/auth/login", json={"email": _EMAIL, "password": PASSWORD})
    return browser


def _log_in_and_out(recorder: Recorder, browser: httpx.Client) -> httpx.Client:
    call, other = recorder.call, new_browser(recorder.tenant)
    form = {"email": _EMAIL, "password": PASSWORD}
    call("POST", "/api/auth/login", form, client=other)
    sessions = browser.get("/api/auth/sessions").json()["data"]
    [session_id] = [record["id"] for record in sessions if not record["current"]]
    end_session = "/api/auth/sessions/{session_id}"
    call("DELETE", end_session, client=browser, session_id=session_id)
    passwords = {"current": PASSWORD, "new": _NEW_PASSWORD}
    call("POST", "/api/auth/password", passwords, client=browser)
    back = {"current": _NEW_PASSWORD, "new": PASSWORD}
    assert browser.post("/api/auth/password", json=back).is_success
    call("POST", "/api/auth/logout", client=browser)
    return _log_in(recorder)


def _use_second_factor(recorder: Recorder, browser: httpx.Client) -> None:
    call, path, password = recorder.call, "/api/auth/second-factor", {"password": PASSWORD}
    app = pyotp.TOTP(call("POST", path, password, client=browser)["secret"])
    call("POST", f"{path}/confirm", {"code": _code(recorder, app)}, client=browser)
    browser = _log_in(recorder)
    call("POST", "/api/auth/login/code", {"code": _code(recorder, app)}, client=browser)
    call("POST", f"{path}/recovery-codes", password, client=browser)
    call("POST", f"{path}/turn-off", {"code": _code(recorder, app)}, client=browser)
    _reset_second_factor(recorder)


def _reset_second_factor(recorder: Recorder) -> None:
    """Owners may do this only for members without another workspace."""
    member, path = join(recorder.tenant), "/api/auth/second-factor"
    app = pyotp.TOTP(member.post(path, json={"password": PASSWORD}).json()["secret"])
    confirmed = member.post(f"{path}/confirm", json={"code": _code(recorder, app)})
    assert confirmed.is_success, confirmed.text
    user_id = member.get("/api/auth/session").json()["user"]["id"]
    reset = "/api/settings/members/{user_id}/second-factor"
    recorder.call("DELETE", reset, client=recorder.tenant.browser, user_id=user_id)


def _code(recorder: Recorder, app: pyotp.TOTP) -> str:
    """Wait for a new code of the authenticator app, and return it."""
    recorder.clock.advance(seconds=_PAST_A_STEP_S)
    return app.at(recorder.clock() // 1000)


def _reset_password(recorder: Recorder) -> None:
    call, browser = recorder.call, new_browser(recorder.tenant)
    path = "/api/auth/password-resets"
    call("POST", path, {"email": _EMAIL}, client=browser)
    token = _mailed_token(recorder, "Reset your Penstock password", r"/new#([\w-]+)")
    form = {"token": token, "password": _NEW_PASSWORD}
    call("POST", f"{path}/redeem", form, client=browser)
