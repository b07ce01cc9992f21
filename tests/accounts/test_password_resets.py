"""Forgotten passwords: a link by mail, that works once; invitations by mail; the mail server."""

import re
from typing import NoReturn

import httpx
import pytest
from sqlalchemy import select

from penstock.app import Services
from penstock.metadb.tables import password_resets
from penstock.settings import Settings
from tests.answers import columns_of, problem
from tests.conftest import ShiftedClock
from tests.mail_server import MailServer
from tests.tenant import (
    BASE_URL,
    PASSWORD,
    Tenant,
    audit_log,
    create_invitation,
    log_in,
    new_browser,
)
from tests.waiting import eventually

NEW = "another horse battery"
REQUEST = "/api/auth/password-resets"


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    more = {"mail_from": "Penstock <penstock@example.com>", "trusted_proxies": "*"}
    return settings.model_copy(update=mails.settings() | more)


def forget(tenant: Tenant, email: str | None = None, address: str = "192.0.2.1") -> httpx.Response:
    return new_browser(tenant).post(
        REQUEST, json={"email": email or tenant.email}, headers={"X-Forwarded-For": address}
    )


def token_in(text: str) -> str:
    [token] = re.findall(rf"{re.escape(BASE_URL)}/reset-password/new#([\w-]{{43}})\n", text)
    return str(token)


def redeem(tenant: Tenant, token: str, password: str = NEW) -> httpx.Response:
    form = {"token": token, "password": password}
    return new_browser(tenant).post(f"{REQUEST}/redeem", json=form)


def actions(tenant: Tenant) -> list[tuple[str, str]]:
    return columns_of(audit_log(tenant.client), "action", "actor")


@pytest.mark.every_database
def test_the_mailed_link_sets_a_new_password_once_and_ends_all_sessions(
    workspace: Tenant, mails: MailServer, services: Services
) -> None:
    assert forget(workspace, workspace.email.upper()).status_code == 204
    mail = mails.mail()
    assert (mail["To"], mail["From"], mail["Subject"]) == (
        workspace.email,
        "Penstock <penstock@example.com>",
        "Reset your Penstock password",
    )
    assert mail.get_content_type() == "text/plain"
    token = token_in(mails.text())
    with services.database.read() as db:
        [(stored,)] = db.execute(select(password_resets.c.token_hash)).all()
    assert (len(stored), token.encode() in stored) == (32, False)
    assert redeem(workspace, token, "short").json()["errors"][0]["field"] == "password"
    assert redeem(workspace, token).status_code == 204
    assert workspace.browser.get("/api/auth/session").status_code == 401
    assert log_in(new_browser(workspace), workspace.email).status_code == 401
    assert log_in(new_browser(workspace), workspace.email, NEW).status_code == 200
    assert problem(redeem(workspace, token, PASSWORD)) == (404, "reset_not_found")
    assert mails.mail(1)["Subject"] == "Your Penstock password was changed"
    assert ("password_reset", workspace.email) in actions(workspace)
    assert ("password_reset_requested", workspace.email) in actions(workspace)


def test_a_mail_that_cannot_be_written_holds_up_no_other(
    workspace: Tenant, mails: MailServer, services: Services
) -> None:
    def fail() -> NoReturn:
        raise ValueError("no such template")

    services.mailer.post(fail)
    forget(workspace)
    assert mails.mail()["Subject"] == "Reset your Penstock password"


@pytest.mark.every_database
def test_a_link_expires_after_an_hour_and_the_others_with_the_first_that_is_used(
    workspace: Tenant, mails: MailServer, clock: ShiftedClock
) -> None:
    forget(workspace)
    first = token_in(mails.text(0))
    clock.advance(seconds=3601)
    assert redeem(workspace, first).status_code == 404
    forget(workspace)
    forget(workspace)
    second, third = token_in(mails.text(1)), token_in(mails.text(2))
    assert redeem(workspace, second).status_code == 204
    assert redeem(workspace, third).status_code == 404


def test_an_unknown_address_gets_the_same_answer_and_no_mail(
    workspace: Tenant, mails: MailServer, monkeypatch: pytest.MonkeyPatch, services: Services
) -> None:
    with monkeypatch.context() as nobody_reads:
        # Neither answer depends on the database, so neither can tell anything by its time.
        nobody_reads.setattr(services.password_resets, "_database", None)
        nobody_reads.setattr(services.mailer.worker, "wake", lambda: None)
        known, unknown = forget(workspace), forget(workspace, "nobody@example.com")
    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)
    assert set(known.headers) == set(unknown.headers)
    services.mailer.worker.wake()
    assert mails.mail()["To"] == workspace.email
    forget(workspace, address="192.0.2.2")
    assert mails.mail(1)["To"] == workspace.email
    assert len(mails.mails) == 2


def test_requests_are_limited_per_address_of_mail_and_network_and_per_network(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    for email in (workspace.email, "nobody@example.com"):
        statuses = [forget(workspace, email, "198.51.100.1").status_code for _ in range(4)]
        assert statuses == [204, 204, 204, 429]
    statuses = [
        forget(workspace, f"nobody{number}@example.com", "203.0.113.1").status_code
        for number in range(21)
    ]
    assert statuses == [204] * 20 + [429]
    clock.advance(seconds=3600)
    assert forget(workspace, address="198.51.100.1").status_code == 204


def test_requests_of_strangers_do_not_block_the_owner(
    workspace: Tenant, mails: MailServer, clock: ShiftedClock
) -> None:
    for _ in range(3):
        assert forget(workspace, address="198.51.100.1").status_code == 204
    assert forget(workspace, address="203.0.113.7").status_code == 204
    assert token_in(mails.text(3))


@pytest.mark.usefixtures("warehouse")
def test_a_day_of_requests_by_strangers_leaves_the_owners_mails_and_is_bounded(
    workspace: Tenant, mails: MailServer, clock: ShiftedClock
) -> None:
    own = "203.0.113.7"
    headers = {"X-Forwarded-For": own}
    answer = log_in(new_browser(workspace), workspace.email, headers=headers)
    assert answer.status_code == 200
    for number in range(30):
        assert forget(workspace, address=f"198.51.100.{number}").status_code == 204
    mails.mail(9)
    assert forget(workspace, address=own).status_code == 204
    assert token_in(mails.text(10))
    for _ in range(11):
        clock.advance(seconds=3600)
        assert forget(workspace, address=own).status_code == 204
    mails.mail(19)
    assert len(mails.mails) <= 21, "ten for strangers, ten for the owner, and one a day later"


def test_a_foreign_page_cannot_request_it(workspace: Tenant) -> None:
    headers = {"Origin": "https://evil.example"}
    for path, body in (
        (REQUEST, {"email": workspace.email}),
        (f"{REQUEST}/redeem", {"token": "x", "password": NEW}),
    ):
        answer = new_browser(workspace).post(path, json=body, headers=headers)
        assert answer.json()["code"] == "foreign_origin"


def test_a_mail_that_fails_is_tried_again_and_delays_no_other(
    workspace: Tenant, mails: MailServer, clock: ShiftedClock, services: Services
) -> None:
    mails.answers = ["451 try again later", "554 never"]
    forget(workspace)
    eventually(lambda: mails.attempts == 1)
    create_invitation(workspace)
    eventually(lambda: mails.attempts == 2)
    invitation = create_invitation(workspace)
    assert mails.mail()["To"] == invitation["email"]
    clock.advance(seconds=6)
    services.mailer.worker.wake()
    assert token_in(mails.text(1))
    assert services.mailer.worker.health().failing_since_ms is None
    clock.advance(seconds=3600)
    services.mailer.worker.wake()
    create_invitation(workspace)
    mails.mail(2)
    assert mails.attempts == 5, "the refused one was not tried again"


def test_more_mails_than_can_wait_are_refused(
    workspace: Tenant, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.accounts.mail.service._MAX_QUEUED", 0)
    assert problem(forget(workspace)) == (503, "busy")
    assert create_invitation(workspace)["mailed"] is False


def test_an_invitation_is_mailed(workspace: Tenant, mails: MailServer) -> None:
    invitation = create_invitation(workspace)
    assert invitation["mailed"] is True
    assert mails.mail()["To"] == invitation["email"]
    assert invitation["url"] in mails.text()
    assert workspace.email in mails.text()


def test_invitations_are_mailed_only_so_often(workspace: Tenant, mails: MailServer) -> None:
    mailed = [create_invitation(workspace, email="ann@example.com")["mailed"] for _ in range(4)]
    assert mailed == [True, True, True, False]


def test_an_address_that_mail_headers_read_otherwise_is_refused(workspace: Tenant) -> None:
    for email in ("=?utf-8?q??=@x.com", "=?utf-8?q?ceo?=@corp.com"):
        form = {"email": email, "role": "member"}
        answer = workspace.browser.post("/api/settings/invitations", json=form)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "not_an_email")


def test_a_changed_password_ends_open_links(workspace: Tenant, mails: MailServer) -> None:
    assert forget(workspace).status_code == 204
    token = token_in(mails.text())
    change = {"current": PASSWORD, "new": NEW}
    assert workspace.browser.post("/api/auth/password", json=change).status_code == 204
    assert redeem(workspace, token, "a third horse battery").status_code != 204
    assert log_in(new_browser(workspace), workspace.email, NEW).status_code == 200
