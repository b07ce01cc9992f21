"""Who may sign up, and what a sign-up makes."""

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.accounts.service import AccountService
from penstock.accounts.store import lock_sign_ups
from penstock.app import Services, build_services
from penstock.metadb.tables import setup_tokens
from penstock.settings import Settings
from tests.answers import body_of, faults, problem
from tests.applications import application
from tests.cases import cases
from tests.serving import Served
from tests.tenant import PASSWORD, connecting_from, log_in, visitor

URL = "http://localhost:8000"
FORM = {"email": "Ada@Example.com", "password": PASSWORD, "workspaceName": "Acme"}


def another_node(services):
    """The account service of another node over the same database."""
    return AccountService(
        services.database,
        services.audit_log,
        services.second_factors,
        services.confirmations,
        services.networks,
        services.password_work,
        services.settings,
        services.clock,
    )


@pytest.fixture
def settings(tmp_path: Path, metadb_url: str) -> Settings:
    return Settings(data=tmp_path, database_url=metadb_url)


@pytest.fixture
def local_client(services: Services) -> Iterator[TestClient[Any]]:
    """A client on the machine itself."""
    with TestClient(connecting_from("127.0.0.1", application(services)), base_url=URL) as running:
        yield running


@pytest.fixture
def remote_client(services: Services) -> Iterator[TestClient[Any]]:
    """A client on another machine."""
    with TestClient(
        connecting_from("192.0.2.7", application(services)), base_url="http://penstock.example"
    ) as running:
        yield running


def sign_up(
    client: httpx.Client, headers: dict[str, str] | None = None, **form: Any
) -> httpx.Response:
    return client.post("/api/auth/signup", json=FORM | form, headers=headers)


@pytest.mark.usefixtures("starts_service")
def test_a_local_client_can_create_the_first_account(tmp_path):
    with Served(tmp_path / "data") as service:
        assert sign_up(service.client).status_code == 201
        assert sign_up(service.client, email="second@example.com").json()["code"] == "signup_closed"


@pytest.mark.usefixtures("starts_service")
def test_the_printed_setup_token_allows_the_first_sign_up_from_elsewhere(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Served(
        tmp_path / "data", "--port", str(port), PENSTOCK_PUBLIC_URL=f"http://127.0.0.1:{port}"
    ) as service:
        [token] = re.findall(r"X-Setup-Token: ([\w-]+)", service.output())
        assert sign_up(service.client, headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 403
        answer = sign_up(
            service.client, headers={"X-Forwarded-For": "192.0.2.7", "X-Setup-Token": token}
        )
        assert answer.status_code == 201


def test_signing_up_answers_user_and_workspace_and_signs_in(local_client):
    body = body_of(sign_up(local_client), 201)
    assert set(body) == {"user", "workspace", "role"}
    assert body["user"]["email"] == "ada@example.com"
    assert body["workspace"]["name"] == "Acme"
    assert body["user"]["id"].startswith("usr_")
    assert body["workspace"]["id"].startswith("wsp_")
    assert local_client.get("/api/auth/session").json() == body


@pytest.mark.parametrize(
    ("public_url", "secure"),
    [(None, False), ("http://penstock.example", False), ("https://penstock.example", True)],
)
def test_the_cookie_is_out_of_reach_of_scripts_and_secure_under_https(
    tmp_path, metadb_url, clock, warehouse, public_url, secure
):
    settings = Settings(data=tmp_path, database_url=metadb_url, public_url=public_url)
    services = build_services(settings, clock, warehouse)
    with TestClient(
        connecting_from("127.0.0.1", application(services)), base_url=URL
    ) as local_client:
        name_and_value, *attributes = sign_up(local_client).headers["set-cookie"].split("; ")
    assert name_and_value.startswith("service_session=")
    attribute_names = {attribute.lower() for attribute in attributes}
    assert {"httponly", "samesite=lax", "path=/"} <= attribute_names
    assert ("secure" in attribute_names) is secure


@cases(
    "headers",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"X-Forwarded-Host": "penstock.example"},
        {"Host": "rebound.example"},
    ],
)
def test_a_local_proxy_or_a_rebound_name_is_not_a_local_client(local_client, headers):
    response = sign_up(local_client, headers=headers)
    assert problem(response) == (403, "setup_token_required")
    assert "X-Setup-Token" in response.json()["detail"]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "localhost"])
def test_every_spelling_of_loopback_is_a_local_client(
    tmp_path, sqlite_url, clock, warehouse, address, host
):
    services = build_services(Settings(data=tmp_path, database_url=sqlite_url), clock, warehouse)
    with TestClient(connecting_from(address, application(services)), base_url=URL) as client:
        assert sign_up(client, headers={"Host": host}).status_code == 201


def test_from_elsewhere_the_first_sign_up_needs_the_setup_token(remote_client, services):
    token = services.accounts.setup_token
    for headers in (
        {},
        {"X-Setup-Token": ""},
        {"X-Setup-Token": "guess"},
        {"X-Setup-Token": token + "x"},
        {"X-Setup-Token": "ü"},
    ):
        response = sign_up(
            remote_client, headers={name: value.encode() for name, value in headers.items()}
        )
        assert problem(response) == (403, "setup_token_required")
        assert token not in response.text
    assert sign_up(remote_client, headers={"X-Setup-Token": token}).status_code == 201


def test_the_setup_token_ends_with_the_first_account(local_client, services):
    token = services.accounts.setup_token
    assert sign_up(local_client).status_code == 201
    assert services.accounts.setup_token is None
    response = sign_up(local_client, headers={"X-Setup-Token": token}, email="second@example.com")
    assert problem(response) == (403, "signup_closed")


def test_the_setup_token_of_another_node_also_ends(
    local_client, services, settings, clock, warehouse
):
    other_node = build_services(settings, clock, warehouse)
    token = other_node.accounts.setup_token
    assert sign_up(local_client).status_code == 201
    with TestClient(application(other_node)) as client:
        response = sign_up(client, headers={"X-Setup-Token": token}, email="second@example.com")
    assert problem(response) == (403, "signup_closed")


@pytest.mark.every_database
def test_every_node_accepts_the_setup_token_of_every_other(
    remote_client, services, settings, clock, warehouse
):
    other_node = build_services(settings, clock, warehouse)
    assert other_node.accounts.setup_token != services.accounts.setup_token
    headers = {"X-Setup-Token": other_node.accounts.setup_token}
    assert sign_up(remote_client, headers=headers).status_code == 201
    other_node.database.close()


@pytest.mark.every_database
def test_after_the_first_sign_up_no_node_offers_another(
    local_client, services, settings, clock, warehouse
):
    other_node = build_services(settings, clock, warehouse)
    with TestClient(application(other_node), base_url=URL) as other:
        assert other.get("/", follow_redirects=False).headers["location"] == "/signup"
        assert sign_up(local_client).status_code == 201
        assert other.get("/", follow_redirects=False).headers["location"] == "/login"
        assert "Sign-up is closed" in other.get("/signup").text
        assert other_node.accounts.setup_token is None


@pytest.mark.every_database
def test_setup_tokens_are_stored_as_hashes_at_most_100_and_deleted_with_the_first_sign_up(
    remote_client, services, settings, clock
):
    def stored() -> list[bytes]:
        with services.database.read() as db:
            return list(db.scalars(select(setup_tokens.c.token_hash)))

    oldest = services.accounts.setup_token
    clock.advance(seconds=1)
    nodes = [another_node(services) for _ in range(100)]
    tokens = [node.setup_token for node in nodes]
    assert len(stored()) == 100
    assert not {token.encode() for token in tokens} & set(stored())
    response = sign_up(remote_client, headers={"X-Setup-Token": oldest})
    assert response.json()["code"] == "setup_token_required"
    assert sign_up(remote_client, headers={"X-Setup-Token": tokens[0]}).status_code == 201
    assert stored() == []
    assert another_node(services).setup_token is None
    assert stored() == []


@pytest.mark.every_database
def test_of_concurrent_first_sign_ups_one_succeeds(local_client, services):
    def first(number: int) -> int:
        return sign_up(
            visitor(local_client, {"Host": "localhost"}), email=f"user{number}@example.com"
        ).status_code

    with ThreadPoolExecutor(6) as threads:
        with services.database.write() as db:
            lock_sign_ups(db)  # until several requests have seen that no account exists
            answers = [threads.submit(first, number) for number in range(6)]
            sleep(0.5)
        assert sorted(answer.result() for answer in answers) == [201] + [403] * 5


def test_later_sign_ups_require_open_sign_up(local_client, tmp_path, metadb_url, clock, warehouse):
    assert sign_up(local_client).status_code == 201
    assert problem(sign_up(local_client, email="second@example.com")) == (403, "signup_closed")
    open_settings = Settings(data=tmp_path, database_url=metadb_url, signup_open=True)
    with TestClient(
        connecting_from("192.0.2.7", application(build_services(open_settings, clock, warehouse)))
    ) as remote_client:
        assert sign_up(remote_client, email="second@example.com").status_code == 201
        assert problem(sign_up(remote_client, email="SECOND@example.com ")) == (409, "email_taken")


@cases(
    ("form", "field", "code"),
    [
        ({"email": "ada"}, "email", "not_an_email"),
        ({"email": "ada@"}, "email", "not_an_email"),
        ({"email": "@example.com"}, "email", "not_an_email"),
        ({"email": "a b@example.com"}, "email", "not_an_email"),
        ({"email": "ada@exa mple.com"}, "email", "not_an_email"),
        ({"email": "ada@-example.com"}, "email", "not_an_email"),
        ({"email": "ada\u0000@example.com"}, "email", "not_an_email"),
        ({"email": "a" * 65 + "@example.com"}, "email", "not_an_email"),
        ({"email": "a@" + "b." * 130 + "com"}, "email", "too_long"),
        ({"email": 5}, "email", "wrong_type"),
        ({"password": "seven77"}, "password", "too_short"),
        ({"password": "x" * 1025}, "password", "too_long"),
        ({"password": 12345678}, "password", "wrong_type"),
        ({"workspaceName": " "}, "workspaceName", "too_short"),
        ({"workspaceName": "x" * 201}, "workspaceName", "too_long"),
        ({"workspaceName": "a\u0000b"}, "workspaceName", "control_character"),
        ({"role": "owner"}, "role", "unknown_field"),
    ],
)
def test_each_fault_names_its_field(local_client, form, field, code):
    response = sign_up(local_client, **form)
    assert faults(response) == {field: code}


@pytest.mark.parametrize("password", ["12345678", "x" * 1024, "pass\u0000word", "пароль🔑пароль"])
def test_any_password_of_8_to_1024_characters_works(local_client, password):
    assert sign_up(local_client, password=password).status_code == 201
    assert log_in(local_client, FORM["email"], password).status_code == 200


def test_all_faults_are_reported_without_the_password(local_client):
    response = local_client.post(
        "/api/auth/signup", json={"email": "ada", "password": "secret!", "workspaceName": ""}
    )
    assert set(faults(response)) == {"email", "password", "workspaceName"}
    assert "secret!" not in response.text


def test_a_body_that_is_not_labelled_json_is_415(local_client):
    answer = local_client.post("/api/auth/signup", content=b'{"email": "a@example.com"}')
    assert answer.status_code == 415


def test_a_foreign_page_cannot_sign_up(local_client):
    answer = sign_up(local_client, headers={"Origin": "https://evil.example"})
    assert answer.json()["code"] == "foreign_origin"
