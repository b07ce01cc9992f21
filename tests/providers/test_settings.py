"""Signing secrets of a website: set, rotated, listed without being shown, removed."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from penstock.app import Services
from penstock.metadb.secret_box import SecretBox, seal_all
from penstock.metadb.tables import provider_secrets
from tests.answers import body_of, faults, problem
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.providers.conftest import SECRETS, STRIPE_SECRET, Json, Sender
from tests.tenant import BASE_URL, Tenant

NEW = "whsec_the_new_one_0123"
OTHERS = [secret for secret in SECRETS.values() if secret != STRIPE_SECRET]
DAY_S = 86_400


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def path(workspace: Tenant) -> str:
    return f"/api/settings/websites/{workspace.website_id}/providers"


@pytest.fixture
def stored_secrets(services: Services) -> Callable[[], list[str]]:
    """The secrets in the metadata DB, decrypted."""

    def read() -> list[str]:
        box = SecretBox.from_settings(services.settings)
        with services.database.read() as db:
            sealed = db.execute(select(provider_secrets.c.secret)).scalars()
            return sorted(box.open(secret) for secret in sealed)

    return read


def test_a_secret_is_set_and_never_shown(workspace: Tenant, path: str) -> None:
    answer = workspace.client.put(f"{path}/stripe", json={"signingSecret": STRIPE_SECRET})
    [secret] = body_of(answer)["secrets"]
    assert answer.json() == {
        "provider": "stripe",
        "webhookUrl": f"{BASE_URL}/api/providers/stripe/{workspace.website_id}",
        "secrets": [{"createdAt": secret["createdAt"], "validUntil": None}],
    }
    listed = workspace.client.get(path)
    assert listed.json() == {"data": [answer.json()], "page": 1, "pageSize": 20, "total": 1}
    for text in (
        answer.text,
        listed.text,
        workspace.client.get(f"/api/settings/websites/{workspace.website_id}").text,
    ):
        assert STRIPE_SECRET not in text
    assert workspace.client.get(f"{path}/stripe").status_code == 405


def test_providers_are_listed_by_name_and_by_page(sender: Sender, path: str) -> None:
    listed = sender.tenant.client.get(path, params={"pageSize": 2}).json()
    names = sorted(SECRETS)
    assert [row["provider"] for row in listed["data"]] == names[:2]
    assert listed["total"] == len(names)
    listed = sender.tenant.client.get(path, params={"pageSize": 2, "page": 2}).json()
    assert [row["provider"] for row in listed["data"]] == names[2:4]


def test_the_previous_secret_is_valid_for_a_day(
    sender: Sender, clock: ShiftedClock, stored_secrets: Callable[[], list[str]]
) -> None:
    secrets = sender.set_secret("stripe", NEW).json()["secrets"]
    assert [secret["validUntil"] is None for secret in secrets] == [True, False]
    assert sender.stripe(secret=NEW).status_code == 200
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 200
    clock.advance(seconds=DAY_S - 60)
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 200
    clock.advance(seconds=61)
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 401
    assert sender.stripe(secret=NEW).status_code == 200
    assert stored_secrets() == sorted([NEW, *OTHERS])  # expired ones are deleted


def test_the_previous_secret_can_last_longer_or_end_at_once(
    sender: Sender, clock: ShiftedClock, stored_secrets: Callable[[], list[str]]
) -> None:
    sender.set_secret("stripe", NEW, previousValidSeconds=7 * DAY_S)
    clock.advance(days=6)
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 200
    answer = sender.set_secret("stripe", NEW, previousValidSeconds=0)
    assert len(answer.json()["secrets"]) == 1
    assert STRIPE_SECRET not in stored_secrets()
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 401
    assert sender.stripe(secret=NEW).status_code == 200


def test_setting_the_current_secret_again_changes_nothing(
    sender: Sender, clock: ShiftedClock
) -> None:
    before = sender.set_secret("stripe", NEW).json()
    clock.advance(seconds=3600)
    assert sender.set_secret("stripe", NEW).json() == before


def test_a_rotation_can_be_reverted(sender: Sender, clock: ShiftedClock) -> None:
    sender.set_secret("stripe", NEW)
    secrets = sender.set_secret("stripe", STRIPE_SECRET).json()["secrets"]
    assert [secret["validUntil"] is None for secret in secrets] == [True, False]
    clock.advance(days=2)
    assert sender.stripe(secret=STRIPE_SECRET).status_code == 200
    assert sender.stripe(secret=NEW).status_code == 401


@pytest.mark.every_database
def test_five_secrets_may_be_valid_at_once(
    sender: Sender, stored_secrets: Callable[[], list[str]]
) -> None:
    for number in range(4):
        assert sender.set_secret("stripe", f"whsec_number_{number}").status_code == 200
    before = stored_secrets()
    assert problem(sender.set_secret("stripe", NEW)) == (409, "too_many_secrets")
    assert stored_secrets() == before
    assert sender.set_secret("stripe", NEW, previousValidSeconds=0).status_code == 200


def test_a_removed_provider_is_refused(
    sender: Sender, path: str, stored_secrets: Callable[[], list[str]]
) -> None:
    assert sender.tenant.client.delete(f"{path}/stripe").status_code == 204
    assert sender.stripe().status_code == 401
    assert sender.standard().status_code == 200
    assert stored_secrets() == sorted(OTHERS)
    assert sender.tenant.client.delete(f"{path}/stripe").status_code == 404


def test_the_secret_is_not_in_the_log(sender: Sender, capfd: pytest.CaptureFixture[str]) -> None:
    sender.set_secret("stripe", NEW)
    sender.stripe(secret=NEW)
    sender.stripe(secret="whsec_wrong")
    assert NEW not in "".join(capfd.readouterr())


@cases(
    ("provider", "body", "expected"),
    [
        ("stripe", {}, {"signingSecret": "required"}),
        ("stripe", {"signingSecret": None}, {"signingSecret": "wrong_type"}),
        ("stripe", {"signingSecret": 5}, {"signingSecret": "wrong_type"}),
        ("stripe", {"signingSecret": ""}, {"signingSecret": "too_short"}),
        ("stripe", {"signingSecret": "x" * 501}, {"signingSecret": "too_long"}),
        ("stripe", {"signingSecret": "two words"}, {"signingSecret": "not_a_secret"}),
        ("stripe", {"signingSecret": "whsec_x\n"}, {"signingSecret": "not_a_secret"}),
        ("stripe", {"signingSecret": "wh\0sec"}, {"signingSecret": "not_a_secret"}),
        ("stripe", {"signingSecret": "sécret"}, {"signingSecret": "not_a_secret"}),
        ("polar", {"signingSecret": "whsec_"}, {"signingSecret": "not_a_secret"}),
        ("standardwebhooks", {"signingSecret": "not-base64"}, {"signingSecret": "not_a_secret"}),
        ("standardwebhooks", {"signingSecret": "whsec_abcde"}, {"signingSecret": "not_a_secret"}),
        ("standardwebhooks", {"signingSecret": "="}, {"signingSecret": "not_a_secret"}),
        (
            "stripe",
            {"signingSecret": "s", "previousValidSeconds": -1},
            {"previousValidSeconds": "greater_than_equal"},
        ),
        (
            "stripe",
            {"signingSecret": "s", "previousValidSeconds": 604_801},
            {"previousValidSeconds": "less_than_equal"},
        ),
        (
            "stripe",
            {"signingSecret": "s", "secret": "s", "more": 1},
            {"secret": "unknown_field", "more": "unknown_field"},
        ),
    ],
)
def test_faults(
    workspace: Tenant, path: str, provider: str, body: Json, expected: dict[str, Any]
) -> None:
    answer = workspace.client.put(f"{path}/{provider}", json=body)
    assert faults(answer) == expected
    assert workspace.client.get(path).json()["total"] == 0


@cases("provider", ["paypal", "Stripe", "stripe ", "%00", "\u00e9"])
def test_an_unknown_provider_is_404(workspace: Tenant, path: str, provider: str) -> None:
    answer = workspace.client.put(f"{path}/{provider}", json={"signingSecret": "s"})
    assert answer.status_code == 404
    assert workspace.client.delete(f"{path}/{provider}").status_code == 404


def test_a_website_of_another_workspace_is_404(
    workspace: Tenant, other_workspace: Tenant, path: str
) -> None:
    client = other_workspace.client
    assert client.put(f"{path}/stripe", json={"signingSecret": "s"}).status_code == 404
    assert client.get(path).status_code == 404
    assert client.delete(f"{path}/stripe").status_code == 404
    assert workspace.client.get(path).json()["total"] == 0


def test_secrets_from_before_encryption_are_encrypted_at_the_next_start(
    workspace, services, settings
):
    path = f"/api/settings/websites/{workspace.website_id}/providers/stripe"
    assert workspace.client.put(path, json={"signingSecret": "whsec_plain"}).status_code == 200
    with services.database.write() as db:
        db.execute(update(provider_secrets).values(secret="whsec_plain"))
    seal_all(services.database, SecretBox.from_settings(settings))
    with services.database.read() as db:
        [stored] = db.scalars(select(provider_secrets.c.secret)).all()
    assert stored.startswith("fernet:")
    assert "plain" not in stored
    again = workspace.client.put(path, json={"signingSecret": "whsec_plain"}).json()
    assert len(again["secrets"]) == 1, "it is still the same secret"
