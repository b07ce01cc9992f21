"""Who owns an email address: links that confirm it, and accounts that a stranger made first."""

import re
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyotp
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from litestar.testing import TestClient
from sqlalchemy import select, update

from penstock.accounts.keys.schema import NewKey
from penstock.accounts.model import Role
from penstock.app import Services
from penstock.base.errors import Unauthorized
from penstock.metadb.tables import email_confirmations, users
from penstock.settings import Settings
from tests.accounts.test_single_sign_on import log_in as sign_on
from tests.conftest import ShiftedClock
from tests.identity_provider import IdentityProvider
from tests.mail_server import MailServer
from tests.records import new_key
from tests.tenant import (
    BASE_URL,
    PASSWORD,
    Tenant,
    audit_log,
    create_invitation,
    join,
    log_in,
    new_browser,
    sign_up,
    token_of,
)

SEND = "/api/auth/email-confirmations"


@pytest.fixture
def settings(settings: Settings, mails: MailServer, provider: IdentityProvider) -> Settings:
    changes = mails.settings() | provider.settings() | {"trusted_proxies": "*"}
    return settings.model_copy(update=changes)


@pytest.fixture
def squatter(server: TestClient[Any], workspace: Tenant) -> Tenant:
    """A stranger who signed up with the address of somebody else."""
    return sign_up(server)


def is_confirmed(browser: httpx.Client) -> bool:
    return browser.get("/api/auth/session").json()["user"]["emailConfirmed"]


def mailed(mails: MailServer, to: str, subject: str, number: int = 0) -> str:
    """The text of a mail, once it is here."""
    numbers: list[int] = []
    for at in range(20):
        mail = mails.mail(at)
        if (mail["To"], mail["Subject"]) == (to, subject):
            numbers.append(at)
            if len(numbers) > number:
                return mails.text(at)
    raise AssertionError("no such mail")


def confirmation(mails: MailServer, tenant: Tenant, number: int = 0) -> str:
    text = mailed(mails, tenant.email, "Confirm your address for Penstock", number)
    [token] = re.findall(rf"{re.escape(BASE_URL)}/confirm-email\?token=([\w-]{{43}})\n", text)
    return str(token)


def redeem(browser: httpx.Client, token: str) -> httpx.Response:
    return browser.post(f"{SEND}/redeem", json={"token": token})


def audit(browser: httpx.Client) -> list[str]:
    return [entry["action"] for entry in audit_log(browser)]


@pytest.mark.every_database
def test_a_mailed_link_confirms_the_address_once_with_the_session_of_the_account(
    workspace: Tenant, squatter: Tenant, mails: MailServer, services: Services
) -> None:
    assert is_confirmed(workspace.browser), "the operator's account needs no proof"
    assert not is_confirmed(squatter.browser)
    token = confirmation(mails, squatter)
    with services.database.read() as db:
        [(stored,)] = db.execute(select(email_confirmations.c.token_hash)).all()
    assert (len(stored), token.encode() in stored) == (32, False)
    assert redeem(new_browser(squatter), token).status_code == 401
    assert redeem(workspace.browser, token).json()["code"] == "confirmation_not_found"
    assert redeem(squatter.browser, token).status_code == 204
    assert is_confirmed(squatter.browser)
    assert redeem(squatter.browser, token).json()["code"] == "confirmation_not_found"
    assert squatter.browser.post(SEND).json()["code"] == "email_confirmed"
    assert "email_confirmed" in audit(squatter.browser)


def test_a_link_expires_after_a_day_and_mails_are_limited(
    squatter: Tenant, mails: MailServer, clock: ShiftedClock
) -> None:
    first = confirmation(mails, squatter)
    statuses = [squatter.browser.post(SEND).status_code for _ in range(5)]
    assert statuses == [204] * 4 + [429], "the first one was sent at sign-up"
    clock.advance(seconds=24 * 3600 + 1)
    assert redeem(squatter.browser, first).status_code == 404
    assert squatter.browser.post(SEND).status_code == 204


def test_sign_ups_of_one_network_send_at_most_twenty_mails_a_day(
    server: TestClient[Any], workspace: Tenant, services: Services
) -> None:
    for _ in range(21):
        last = sign_up(server)
    assert last.browser.post(SEND).status_code == 429


def test_pages_ask_to_confirm_until_it_is_done(squatter: Tenant, mails: MailServer) -> None:
    page = squatter.browser.get("/settings/account").text
    assert "Confirm your address" in page
    assert "no alerts or digests by email, and your invitations are not emailed." in " ".join(
        page.split()
    )
    assert "Not confirmed" in page
    token = confirmation(mails, squatter)
    link = f"/confirm-email?token={token}"
    to_log_in = new_browser(squatter).get(link)
    assert to_log_in.headers["location"].startswith("/login?next=/confirm-email%3Ftoken%3D")
    assert "Confirm address" in squatter.browser.get(link).text
    redeem(squatter.browser, token)
    assert "is confirmed" in squatter.browser.get(link).text
    assert "Confirm your address" not in squatter.browser.get("/settings/account").text


@pytest.mark.every_database
def test_the_first_verified_sign_on_takes_the_account_from_whoever_signed_up_first(
    squatter: Tenant, provider: IdentityProvider, clock: ShiftedClock, mails: MailServer
) -> None:
    factor = squatter.browser.post("/api/auth/second-factor", json={"password": PASSWORD}).json()
    code = pyotp.TOTP(factor["secret"]).at(clock() // 1000)
    confirm = squatter.browser.post("/api/auth/second-factor/confirm", json={"code": code})
    assert confirm.status_code == 200
    planted = create_invitation(squatter, "owner")
    token = confirmation(mails, squatter)
    new_browser(squatter).post("/api/auth/password-resets", json={"email": squatter.email})
    reset = mailed(mails, squatter.email, "Reset your Penstock password").partition("#")[2][:43]

    owner, answer = sign_on(squatter, provider, clock)
    assert answer.headers["location"] == "/login/secured?next=%2Fgoals"
    page = owner.get(answer.headers["location"]).text
    assert "somebody else may have created it" in page

    assert squatter.browser.get("/api/auth/session").status_code == 401
    assert squatter.client.get("/api/settings/websites").status_code == 401
    assert log_in(new_browser(squatter), squatter.email).status_code == 401
    form = {"token": reset, "password": "another horse battery"}
    answers = new_browser(squatter).post("/api/auth/password-resets/redeem", json=form)
    assert answers.status_code == 404
    read = new_browser(squatter).post(
        "/api/auth/invitations/read", json={"token": token_of(planted)}
    )
    assert read.status_code == 404
    assert redeem(owner, token).status_code == 404
    assert is_confirmed(owner)
    assert owner.get("/api/auth/second-factor").json()["enabledAt"] is None
    [entry] = audit_log(owner, "account_reclaimed")
    assert "API keys revoked: 1" in entry["target"]
    notice = mailed(mails, squatter.email, "Your Penstock account was secured")
    assert "somebody else may have created it" in notice


def test_later_sign_ons_and_those_to_a_confirmed_account_void_nothing(
    squatter: Tenant, provider: IdentityProvider, clock: ShiftedClock, mails: MailServer
) -> None:
    redeem(squatter.browser, confirmation(mails, squatter))
    for _ in range(2):
        _, answer = sign_on(squatter, provider, clock)
        assert answer.headers["location"] == "/goals"
    assert squatter.browser.get("/api/auth/session").status_code == 200
    assert squatter.client.get("/api/settings/websites").status_code == 200
    assert log_in(new_browser(squatter), squatter.email).status_code == 200


def test_keys_of_others_in_the_strangers_workspace_stay(
    squatter: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    invitation, other = create_invitation(squatter, "owner"), new_browser(squatter)
    form = {"email": invitation["email"], "password": PASSWORD, "invitation": token_of(invitation)}
    assert other.post("/api/auth/signup", json=form).status_code == 201
    key = new_key(other)
    sign_on(squatter, provider, clock)
    bearer = {"Authorization": f"Bearer {key}"}
    assert new_browser(squatter).get("/api/settings/websites", headers=bearer).status_code == 200


def test_a_reset_by_mail_takes_an_account_that_nobody_confirmed(
    squatter: Tenant, mails: MailServer
) -> None:
    new_browser(squatter).post("/api/auth/password-resets", json={"email": squatter.email})
    text = mailed(mails, squatter.email, "Reset your Penstock password")
    assert "never confirmed" in text
    form = {"token": text.partition("#")[2][:43], "password": "another horse battery"}
    answer = new_browser(squatter).post("/api/auth/password-resets/redeem", json=form)
    assert answer.status_code == 204
    assert squatter.client.get("/api/settings/websites").status_code == 401
    answer = log_in(new_browser(squatter), squatter.email, "another horse battery")
    assert answer.json()["user"]["emailConfirmed"] is True


def test_the_url_of_an_invitation_proves_no_address_and_its_mail_does(
    workspace: Tenant, mails: MailServer
) -> None:
    by_url, by_mail = create_invitation(workspace), create_invitation(workspace)
    text = mailed(mails, by_mail["email"], "Invitation to Penstock")
    [link] = re.findall(r"http\S+", text)
    mailed_token = link.partition("invitation=")[2]
    for invitation, token, confirmed in (
        (by_url, token_of(by_url), False),
        (by_mail, mailed_token, True),
    ):
        form = {"email": invitation["email"], "password": PASSWORD, "invitation": token}
        joined = new_browser(workspace).post("/api/auth/signup", json=form)
        assert joined.json()["user"]["emailConfirmed"] is confirmed


def test_a_mailed_invitation_confirms_the_account_that_accepts_it(
    workspace: Tenant, squatter: Tenant, mails: MailServer
) -> None:
    create_invitation(workspace, email=squatter.email)
    [link] = re.findall(r"http\S+", mailed(mails, squatter.email, "Invitation to Penstock"))
    token = link.partition("invitation=")[2]
    answer = squatter.browser.post("/api/auth/invitations/accept", json={"token": token})
    assert answer.status_code == 200
    assert is_confirmed(squatter.browser)


def test_invitations_of_an_unconfirmed_address_are_not_mailed(
    squatter: Tenant, mails: MailServer
) -> None:
    assert create_invitation(squatter)["mailed"] is False
    assert "once you have confirmed" in squatter.browser.get("/settings/members").text
    redeem(squatter.browser, confirmation(mails, squatter))
    assert create_invitation(squatter)["mailed"] is True


def test_nobody_signs_up_with_the_address_of_an_account_of_single_sign_on(
    workspace: Tenant, services: Services, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    changed = services.settings.model_copy(update={"oidc_join_workspace": workspace.id})
    services.single_sign_on._settings = changed
    owner, answer = sign_on(workspace, provider, clock, email="ann@example.com")
    assert answer.headers["location"] == "/goals"
    assert is_confirmed(owner)
    form = {"email": "Ann@example.com", "password": PASSWORD, "workspaceName": "Mine"}
    answer = new_browser(workspace).post("/api/auth/signup", json=form)
    assert answer.json()["code"] == "email_taken"


def test_a_request_that_was_under_way_leaves_no_key_behind(
    squatter: Tenant, provider: IdentityProvider, clock: ShiftedClock, services: Services
) -> None:
    """The squatter's requests were let in before the owner came, and write after that."""
    token = squatter.browser.cookies["service_session"]
    account = services.accounts.session(token)
    sign_on(squatter, provider, clock)
    for late in (
        lambda: services.key_service.create_key(account.caller, NewKey(name="late")),
        lambda: services.invitations.invite(account, "late@example.com", Role.OWNER),
    ):
        with pytest.raises(Unauthorized):
            late()


def test_links_in_mails_lead_to_the_public_url_whatever_the_host(
    squatter: Tenant, mails: MailServer
) -> None:
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    assert squatter.browser.post(SEND, headers=headers).status_code == 204
    new_browser(squatter).post(
        "/api/auth/password-resets", json={"email": squatter.email}, headers=headers
    )
    mailed(mails, squatter.email, "Reset your Penstock password")
    for number in range(len(mails.mails)):
        for link in re.findall(r"https?://\S+", mails.text(number)):
            assert urlsplit(link).netloc == urlsplit(BASE_URL).netloc


@pytest.mark.every_database
def test_an_upgrade_confirms_accounts_that_have_proven_their_address(
    workspace: Tenant,
    squatter: Tenant,
    services: Services,
    provider: IdentityProvider,
    clock: ShiftedClock,
) -> None:
    """Single sign-on proves it for people who came by invitation, not for a stranger's account."""
    by_invitation, silent = join(workspace), join(workspace)
    email = by_invitation.get("/api/auth/session").json()["user"]["email"]
    for address in (email, squatter.email):
        sign_on(workspace, provider, clock, email=address)
    with services.database.write() as db:
        db.execute(update(users).values(email_confirmed_at=None))
        with Operations.context(MigrationContext.configure(db)):
            revision = "penstock.metadb.migrations.versions.0017_confirmed_addresses"
            import_module(revision).confirm_earlier_accounts()
        confirmed = select(users.c.email).where(users.c.email_confirmed_at.is_not(None))
        assert set(db.scalars(confirmed)) == {workspace.email, email}
    assert not is_confirmed(silent)
