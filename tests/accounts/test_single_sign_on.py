"""Single sign-on: who gets in, who does not, and what a provider that lies achieves."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pyotp
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from oidc_provider_mock import User, run_server_in_thread
from pydantic import ValidationError

from penstock.app import Services
from penstock.settings import Settings
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.identity_provider import IdentityProvider
from tests.tenant import BASE_URL, PASSWORD, Tenant, audit_log, new_browser

CALLBACK = "/login/sso/callback"


@pytest.fixture
def metadb_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def settings(settings: Settings, provider: IdentityProvider) -> Settings:
    return settings.model_copy(update=provider.settings() | {"oidc_name": "Example ID"})


def leave(browser: httpx.Client, next_path: str = "/goals") -> dict[str, str]:
    """Follow the button of the log-in page: the parameters that the provider gets."""
    answer = browser.get("/login/sso", params={"next": next_path})
    assert answer.status_code == 302, answer.text
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    return {name: values[0] for name, values in query.items()}


def claims_for(
    provider: IdentityProvider, sent: dict[str, str], clock: ShiftedClock, email: str
) -> dict[str, Any]:
    now_s = clock() // 1000
    return {
        "iss": provider.issuer,
        "aud": "penstock",
        "sub": "person-1",
        "iat": now_s,
        "exp": now_s + 300,
        "nonce": sent["nonce"],
        "email": email,
        "email_verified": True,
    }


def come_back(browser: httpx.Client, sent: dict[str, str], **changes: str) -> httpx.Response:
    query = {"code": "abc", "state": sent["state"], **changes}
    return browser.get(CALLBACK, params=query)


def log_in(
    tenant: Tenant, provider: IdentityProvider, clock: ShiftedClock, **changes: Any
) -> tuple[httpx.Client, httpx.Response]:
    """The whole way, with changed claims; None removes one."""
    browser = new_browser(tenant)
    sent = leave(browser)
    claims = claims_for(provider, sent, clock, tenant.email) | changes
    provider.claims = {name: value for name, value in claims.items() if value is not None}
    return browser, come_back(browser, sent)


def assert_refused(browser: httpx.Client, answer: httpx.Response, status: int, text: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert text in answer.text
    assert browser.get("/api/auth/session").status_code == 401
    assert "service_sign_on" not in browser.cookies


def base64url_sha256(text: str, size: int = 32) -> str:
    """The first bytes of the hash, as PKCE and `at_hash` contain them."""
    digest = hashlib.sha256(text.encode()).digest()
    return urlsafe_b64encode(digest[:size]).decode().rstrip("=")


def test_hashes_are_those_of_the_standards() -> None:
    """The vectors are from RFC 7636, appendix B, and OpenID Connect Core, section A.3."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert base64url_sha256(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    access_token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"
    assert base64url_sha256(access_token, 16) == "77QmUPtjPfzWtF2AnpK9RQ"


def test_a_member_logs_in_with_pkce_state_and_nonce(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    browser = new_browser(workspace)
    assert "Log in with Example ID" in browser.get("/login").text
    sent = leave(browser)
    assert (sent["redirect_uri"], sent["scope"]) == (BASE_URL + CALLBACK, "openid email")
    assert (sent["response_type"], sent["code_challenge_method"]) == ("code", "S256")
    provider.claims = claims_for(provider, sent, clock, workspace.email.upper())
    answer = come_back(browser, sent)
    assert (answer.status_code, answer.headers["location"]) == (302, "/goals")
    assert browser.get("/api/auth/session").json()["user"]["email"] == workspace.email
    [form] = [form for path, form in provider.requests if path == "/token"]
    assert form["code"] == "abc"
    assert base64url_sha256(form["code_verifier"]) == sent["code_challenge"]
    assert come_back(browser, sent).status_code == 401, "the attempt is over"
    [entry] = audit_log(workspace.client, "signed_in")
    assert entry["target"].endswith(f"{workspace.email}: single sign-on")


@cases(
    "changes",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"aud": ["penstock", "another-client"], "azp": "another-client"},
        {"aud": ["penstock", "another-client"]},
        {"aud": ["another-client"], "azp": "penstock"},
        {"azp": "another-client"},
        {"at_hash": base64url_sha256("another", 16)},
        {"at_hash": 1},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"iat": 9999999999},
        {"iat": None},
        {"iss": None},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
    ],
)
def test_an_id_token_for_somebody_else_or_another_time_is_refused(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock, changes: dict[str, Any]
) -> None:
    browser, answer = log_in(workspace, provider, clock, **changes)
    assert_refused(browser, answer, 401, "did not confirm who you are")


@cases(
    "changes",
    [
        {"aud": ["penstock"]},
        {"aud": ["penstock", "another-client"], "azp": "penstock"},
        {"azp": "penstock", "at_hash": base64url_sha256("at", 16)},
    ],
)
def test_an_id_token_with_further_claims_is_accepted(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock, changes: dict[str, Any]
) -> None:
    assert log_in(workspace, provider, clock, **changes)[1].status_code == 302


def test_the_providers_url_may_have_parameters_of_its_own(
    workspace: Tenant, provider: IdentityProvider
) -> None:
    path = "/.well-known/openid-configuration"
    document = provider.answer(path, {}, "")[1]
    own = {"authorization_endpoint": f"{provider.issuer}/authorize?policy=sign%20in"}
    provider.answers[path] = (200, document | own)
    sent = leave(new_browser(workspace))
    assert (sent["policy"], sent["client_id"]) == ("sign in", "penstock")


@cases("kind", ["other key", "client secret", "none", "garbage"])
def test_an_id_token_with_another_signature_is_refused(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock, kind: str
) -> None:
    other = RSAKey.generate_key(2048, {"kid": "1"})
    secret = OctKey.import_key(provider.client_secret.encode() * 8)

    def sign(claims: dict[str, Any]) -> str:
        match kind:
            case "other key":
                return jwt.encode({"alg": "RS256", "kid": "1"}, claims, other)
            case "client secret":
                return jwt.encode({"alg": "HS256", "kid": "1"}, claims, secret)
            case "none":
                _, payload, _ = provider.signed(claims).split(".")
                return f"eyJhbGciOiJub25lIn0.{payload}."
        return "x" * 1000

    provider.sign = sign
    browser, answer = log_in(workspace, provider, clock)
    assert_refused(browser, answer, 401, "did not confirm who you are")


@cases(
    "changes", [{"email_verified": False}, {"email_verified": None}, {"email": "x"}, {"email": 1}]
)
def test_an_address_that_the_provider_does_not_vouch_for_is_refused(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock, changes: dict[str, Any]
) -> None:
    browser, answer = log_in(workspace, provider, clock, **changes)
    assert_refused(browser, answer, 403, "does not confirm your email address")


def test_a_person_without_an_account_is_refused_with_words(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    browser, answer = log_in(workspace, provider, clock, email="<b>@example.com")
    assert_refused(browser, answer, 403, "does not confirm")
    browser, answer = log_in(workspace, provider, clock, email="bob@example.com")
    assert_refused(browser, answer, 403, "bob@example.com has no account here")


def test_an_answer_for_another_browser_or_after_ten_minutes_is_refused(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    browser, thief = new_browser(workspace), new_browser(workspace)
    sent = leave(browser)
    provider.claims = claims_for(provider, sent, clock, workspace.email)
    assert_refused(thief, come_back(thief, sent), 401, "another browser")
    thief.cookies.set("service_sign_on", '["x", "x", "x", "/", 99999999999999]')
    assert_refused(new_browser(workspace), come_back(thief, {"state": "x"}), 401, "another browser")
    assert_refused(browser, come_back(browser, sent, state="other"), 401, "another browser")
    sent = leave(browser)
    other = come_back(browser, sent, iss="https://elsewhere.example")
    assert_refused(browser, other, 401, "another browser")
    sent = leave(browser)
    clock.advance(seconds=601)
    assert_refused(browser, come_back(browser, sent), 401, "has expired")
    assert provider.count("/token") == 0


def test_a_cookie_that_nobody_sealed_is_no_500(workspace: Tenant) -> None:
    browser = new_browser(workspace)
    headers = {"Cookie": b"service_sign_on=%C3%A9"}
    answer = browser.get(CALLBACK, params={"code": "c", "state": "s"}, headers=headers)
    assert answer.status_code == 401, answer.text


def test_errors_of_the_provider_are_a_page_with_words_and_quote_nothing(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    browser = new_browser(workspace)
    sent = leave(browser)
    query = {"error": "access_denied<script>", "state": sent["state"]}
    answer = browser.get(CALLBACK, params=query)
    assert_refused(browser, answer, 401, "did not log you in")
    assert "access_denied" not in answer.text
    provider.answers["/token"] = (400, {"error": "invalid_grant"})
    browser, answer = log_in(workspace, provider, clock)
    assert_refused(browser, answer, 401, "did not confirm who you are")


@pytest.mark.parametrize(
    "document",
    [
        (500, {}),
        (200, b"<html>"),
        (200, b'{"issuer": "' + b"x" * 1_000_000 + b'"}'),
        (200, {"issuer": "https://elsewhere.example"}),
        (200, []),
    ],
)
def test_a_provider_that_answers_nonsense_is_a_page_and_is_not_asked_again_at_once(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock, document: Any
) -> None:
    path = "/.well-known/openid-configuration"
    provider.answers[path] = document
    for _ in range(3):
        answer = new_browser(workspace).get("/login/sso")
        assert answer.status_code == 503
        assert "is not responding right now" in answer.text
    assert provider.count(path) == 1
    del provider.answers[path]
    clock.advance(seconds=11)
    assert log_in(workspace, provider, clock)[1].status_code == 302


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize("url", ["http://elsewhere.example/x", "file:///etc/passwd", 1, None])
def test_only_https_addresses_of_the_provider_are_used(
    workspace: Tenant, provider: IdentityProvider, name: str, url: Any
) -> None:
    path = "/.well-known/openid-configuration"
    document = provider.answer(path, {}, "")[1]
    provider.answers[path] = (200, document | {name: url})
    assert new_browser(workspace).get("/login/sso").status_code == 503


def test_the_document_is_cached_and_new_keys_are_read_when_a_token_needs_them(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    for _ in range(3):
        assert log_in(workspace, provider, clock)[1].status_code == 302
    assert provider.count("/keys") == 1
    provider.key = RSAKey.generate_key(2048, {"kid": "2", "use": "sig"})
    clock.advance(seconds=61)
    assert log_in(workspace, provider, clock)[1].status_code == 302
    assert provider.count("/keys") == 2
    clock.advance(seconds=3601)
    assert log_in(workspace, provider, clock)[1].status_code == 302
    assert provider.count("/keys") == 3


def test_the_address_may_come_from_userinfo_of_the_same_person(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    changes = {"email": None, "email_verified": None}
    verified = {"email": workspace.email, "email_verified": True}
    provider.userinfo = {"sub": "another", **verified}
    browser, answer = log_in(workspace, provider, clock, **changes)
    assert_refused(browser, answer, 401, "did not confirm who you are")
    provider.userinfo = {"sub": "person-1", **verified}
    assert log_in(workspace, provider, clock, **changes)[1].status_code == 302


def test_a_second_factor_is_asked_for_as_well(
    workspace: Tenant, provider: IdentityProvider, clock: ShiftedClock
) -> None:
    answer = workspace.browser.post("/api/auth/second-factor", json={"password": PASSWORD})
    totp = pyotp.TOTP(answer.json()["secret"])
    code = {"code": totp.at(clock() // 1000)}
    workspace.browser.post("/api/auth/second-factor/confirm", json=code)
    browser, answer = log_in(workspace, provider, clock)
    assert answer.headers["location"] == "/login?next=%2Fgoals&code="
    assert browser.get("/api/auth/session").status_code == 401
    page = browser.get(answer.headers["location"]).text
    assert 'data-first-step="" hidden=""' in page
    clock.advance(seconds=60)
    code = {"code": totp.at(clock() // 1000)}
    assert browser.post("/api/auth/login/code", json=code).status_code == 200


def test_log_ins_of_one_network_are_limited(workspace: Tenant, clock: ShiftedClock) -> None:
    browser = new_browser(workspace)
    statuses = [browser.get("/login/sso").status_code for _ in range(201)]
    assert statuses == [302] * 200 + [429]


@pytest.fixture
def mock_issuer() -> Iterator[str]:
    people = [
        User(sub=name, claims={"email": email, "email_verified": True})
        for name, email in (("ann", "ann@example.com"), ("eve", "eve@elsewhere.example"))
    ]
    with run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


def visit_mock(browser: httpx.Client, person: str) -> httpx.Response:
    """Log in at the other implementation of OpenID Connect, as this person."""
    left = browser.get("/login/sso")
    back = httpx.post(left.headers["location"], data={"sub": person}, verify=False)
    assert back.status_code == 302, back.text
    parts = urlsplit(back.headers["location"])
    return browser.get(f"{parts.path}?{parts.query}")


class TestAutomaticJoin:
    @pytest.fixture
    def settings(self, settings: Settings, mock_issuer: str) -> Settings:
        return settings.model_copy(
            update={
                "oidc_issuer": mock_issuer,
                "oidc_email_domains": "Example.com, example.org",
                "oidc_join_workspace": "set below",
            }
        )

    def test_people_of_the_domains_join_the_workspace_and_others_do_not(
        self, workspace: Tenant, services: Services
    ) -> None:
        changed = services.settings.model_copy(update={"oidc_join_workspace": workspace.id})
        services.single_sign_on._settings = changed
        browser = new_browser(workspace)
        assert visit_mock(browser, "ann").status_code == 302
        session = browser.get("/api/auth/session").json()
        assert (session["user"]["email"], session["workspace"]["id"], session["role"]) == (
            "ann@example.com",
            workspace.id,
            "member",
        )
        again = new_browser(workspace)
        assert visit_mock(again, "ann").status_code == 302
        assert again.get("/api/auth/session").json()["user"]["id"] == session["user"]["id"]
        form = {"email": "ann@example.com", "password": ""}
        assert again.post("/api/auth/login", json=form).status_code == 401, "no password"
        stranger = new_browser(workspace)
        refused = visit_mock(stranger, "eve")
        assert_refused(stranger, refused, 403, "not in a domain that may log in here")
        log = audit_log(workspace.client)
        joined = [entry["action"] for entry in log if entry["actor"] == "ann@example.com"]
        assert set(joined) - {"sign_in_failed"} == {"signed_in", "member_joined"}

    def test_nobody_joins_a_workspace_that_does_not_exist(self, workspace: Tenant) -> None:
        browser = new_browser(workspace)
        assert_refused(browser, visit_mock(browser, "ann"), 403, "has no account here")


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": "http://id.example.com"},
        {"oidc_issuer": "https://id.example.com", "oidc_client_id": "x"},
        {"oidc_issuer": "id.example.com"},
        {"oidc_join_workspace": "wsp_x"},
        {"oidc_join_role": "admin"},
    ],
)
def test_settings_of_the_provider_are_checked_at_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings(**settings)
