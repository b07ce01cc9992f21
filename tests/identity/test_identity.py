"""Identity over HTTP on both databases: responses to events and identify, and shipped merges."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import cycle
from typing import Any

import httpx
import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import insert, select, update

from penstock.app import Services, build_services
from penstock.metadb.tables import merges, user_links, visitors
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.answers import body_of, faults
from tests.applications import application
from tests.cases import cases
from tests.conftest import BASE_URL, ShiftedClock
from tests.records import new_website
from tests.tenant import Tenant, visitor
from tests.waiting import PATIENCE_S

SendClaim = Callable[..., dict[str, Any]]


def event_with(client: httpx.Client, tenant: Tenant) -> SendClaim:
    """Send an event and return the response without its event ID, with warnings as codes."""

    def send(**who: str) -> dict[str, Any]:
        body = {"websiteId": tenant.website_id, "event": "e", **who}
        return coded(body_of(client.post("/api/v1/events", json=body), 202))

    return send


@pytest.fixture
def event(workspace: Tenant) -> SendClaim:
    return event_with(workspace.client, workspace)


def identify_with(client: httpx.Client, tenant: Tenant) -> SendClaim:
    def send(visitor_id: str, user_id: str, **more: Any) -> dict[str, Any]:
        body = {"websiteId": tenant.website_id, "visitorId": visitor_id, "userId": user_id, **more}
        return coded(body_of(client.post("/api/identify", json=body)))

    return send


@pytest.fixture
def identify(workspace: Tenant) -> SendClaim:
    """Identify with an API key, like a backend."""
    return identify_with(workspace.client, workspace)


@pytest.fixture
def identify_publicly(server: TestClient[Litestar], workspace: Tenant) -> SendClaim:
    """Identify without a key, like any browser."""
    return identify_with(visitor(server), workspace)


def coded(document: dict[str, Any]) -> dict[str, Any]:
    if "warnings" in document:
        document["warnings"] = [warning["code"] for warning in document["warnings"]]
    return {name: value for name, value in document.items() if name not in ("eventId", "status")}


def aliases(services: Services, warehouse: Warehouse, scope_id: str) -> dict[str, str]:
    assert services.shipper.wait_until_shipped(PATIENCE_S)
    statement = (
        "SELECT visitor_id, canonical_id FROM visitor_aliases FINAL WHERE scope_id = {scope:String}"
    )
    return dict(warehouse.query(statement, {"scope": scope_id})[1])  # type: ignore[arg-type]


def test_claims_follow_the_documented_table(event: SendClaim, identify: SendClaim) -> None:
    assert event(visitorId="v") == {"visitorId": "v"}, "visitor only"
    new = event(userId="u1")["visitorId"]
    assert new not in ("v", "u1"), "user only, not linked: a new visitor"
    assert event(userId="u1") == {"visitorId": new}, "user only, linked"
    assert event(visitorId="v", userId="u2") == {"visitorId": "v"}, "both, neither linked"
    assert event(visitorId="v", userId="u2") == {"visitorId": "v"}, "both, same visitor"
    assert event(visitorId="fresh", userId="u2") == {"visitorId": "v"}, (
        "both, the visitor has no user: merged"
    )
    assert event(visitorId="fresh") == {"visitorId": "v"}, (
        "the absorbed visitor counts as the canonical one"
    )
    third = event(visitorId="v", userId="u3")
    assert third["warnings"] == ["identity_conflict"], "both, another's visitor, user not linked"
    assert third["visitorId"] not in ("v", new)
    assert event(userId="u3") == {"visitorId": third["visitorId"]}
    assert event(visitorId="v", userId="u1") == {
        "visitorId": new,
        "warnings": ["identity_conflict"],
    }, "both, another's visitor, user linked"


def test_identify_links_and_merges_and_reports_it(event: SendClaim, identify: SendClaim) -> None:
    event(visitorId="laptop")
    assert identify("laptop", "u") == {"visitorId": "laptop", "merged": False}
    event(visitorId="phone")
    assert identify("phone", "u") == {"visitorId": "laptop", "merged": True}
    assert identify("phone", "u") == {"visitorId": "laptop", "merged": False}
    assert event(visitorId="phone") == {"visitorId": "laptop"}


def test_the_first_user_keeps_the_device_and_a_second_user_gets_a_new_visitor(
    event: SendClaim, identify: SendClaim
) -> None:
    event(visitorId="shared")
    identify("shared", "first")
    second = identify("shared", "second")
    assert (second["merged"], second["warnings"]) == (False, ["identity_conflict"])
    assert event(userId="first") == {"visitorId": "shared"}
    assert event(userId="second") == {"visitorId": second["visitorId"]}


def test_placeholders_are_stored_as_sent_and_never_linked(
    event: SendClaim, identify: SendClaim
) -> None:
    assert event(visitorId="anonymous") == {
        "visitorId": "anonymous",
        "warnings": ["placeholder_id"],
    }
    assert event(visitorId="anonymous", userId="u")["visitorId"] == event(userId="u")["visitorId"]
    assert identify("v", "null") == {
        "visitorId": "v",
        "merged": False,
        "warnings": ["placeholder_id"],
    }
    assert event(visitorId="v", userId="another") == {"visitorId": "v"}


@pytest.mark.every_database
def test_a_merge_is_shipped_to_the_warehouse_and_logged(
    event: SendClaim,
    identify: SendClaim,
    services: Services,
    warehouse: Warehouse,
    workspace: Tenant,
) -> None:
    event(visitorId="w", userId="u")
    for absorbed in ("a", "b"):
        event(visitorId=absorbed)
        identify(absorbed, "u")
    assert aliases(services, warehouse, workspace.website_id) == {"a": "w", "b": "w"}
    with services.database.read() as db:
        log = db.execute(
            select(merges.c.absorbed_id, merges.c.kept_id, merges.c.user_id).order_by(merges.c.id)
        ).all()
    assert log == [("a", "w", "u"), ("b", "w", "u")]


def test_websites_share_visitors_only_within_an_identity_scope(workspace: Tenant) -> None:
    def visitor_of(website_id: str, **who: str) -> str:
        body = {"websiteId": website_id, "event": "e", **who}
        return workspace.client.post("/api/v1/events", json=body).json()["visitorId"]

    alone, other = new_website(workspace.client, "Other"), new_website(workspace.client, "Other")
    assert visitor_of(alone, visitorId="v", userId="u") == "v"
    assert visitor_of(other, userId="u") != "v"
    shop, app = (new_website(workspace.client, identityScope="shop") for _ in range(2))
    assert visitor_of(shop, visitorId="v", userId="u") == "v"
    assert visitor_of(app, userId="u") == "v"


def test_the_last_value_of_a_trait_holds_and_null_removes_it(
    identify: SendClaim, services: Services
) -> None:
    identify("v", "u", traits={"plan": "free", "since": 2020, "seats": 5})
    identify("v", "u")
    identify("v", "u", traits={"plan": "pro", "seats": None})
    with services.database.read() as db:
        traits = db.execute(select(user_links.c.traits)).scalar_one()
    assert traits == {"plan": "pro", "since": 2020}


def test_without_a_key_identify_returns_only_what_was_sent(
    event: SendClaim, identify_publicly: SendClaim
) -> None:
    event(visitorId="laptop", userId="ada")
    event(visitorId="others", userId="bob")
    for visitor_id, user_id in (
        ("laptop", "ada"), ("unheard", "ada"), ("unheard-2", "nobody"), ("others", "ada")
    ):  # fmt: skip
        assert identify_publicly(visitor_id, user_id) == {"visitorId": visitor_id, "merged": False}


def test_without_a_key_identify_still_joins_the_browser_to_its_user(
    event: SendClaim, identify_publicly: SendClaim
) -> None:
    home = event(userId="ada")["visitorId"]
    identify_publicly("laptop", "ada")
    assert event(visitorId="laptop") == {"visitorId": home}
    identify_publicly("phone", "bob")
    assert event(userId="bob") == {"visitorId": "phone"}


def test_the_first_claim_of_a_backend_ends_public_claims_of_a_user_id(
    event: SendClaim,
    identify_publicly: SendClaim,
    services: Services,
    warehouse: Warehouse,
    workspace: Tenant,
) -> None:
    identify_publicly("mallory", "ada")
    identify_publicly("mallory-phone", "ada")
    assert event(visitorId="mallory-phone") == {"visitorId": "mallory"}
    assert event(visitorId="laptop", userId="ada") == {"visitorId": "laptop"}
    assert event(userId="ada") == {"visitorId": "laptop"}
    assert event(visitorId="mallory") == {"visitorId": "mallory"}
    assert event(visitorId="mallory-phone") == {"visitorId": "mallory-phone"}
    assert aliases(services, warehouse, workspace.website_id) == {"mallory-phone": "mallory-phone"}
    identify_publicly("mallory", "ada")
    assert event(userId="ada") == {"visitorId": "laptop"}, "it joins, and changes nothing"
    holds_together(services)


def test_a_public_claim_never_takes_a_visitor_from_the_user_of_a_backend(
    event: SendClaim, identify_publicly: SendClaim, services: Services
) -> None:
    event(visitorId="laptop", userId="ada")
    identify_publicly("laptop", "mallory")
    assert event(visitorId="laptop", userId="ada") == {"visitorId": "laptop"}
    identify_publicly("phone", "mallory")
    assert event(visitorId="phone", userId="ada") == {"visitorId": "laptop"}
    assert event(userId="mallory")["visitorId"] not in ("laptop", "phone")
    holds_together(services)


def test_public_traits_never_replace_those_of_a_backend(
    identify: SendClaim, identify_publicly: SendClaim, services: Services
) -> None:
    def traits() -> object:
        with services.database.read() as db:
            return db.execute(select(user_links.c.traits)).scalar_one()

    identify_publicly("v", "ada", traits={"plan": "free"})
    assert traits() == {"plan": "free"}
    identify("v", "ada", traits={"plan": "pro"})
    identify_publicly("v", "ada", traits={"plan": "hacked"})
    assert traits() == {"plan": "pro"}


def test_without_a_key_track_returns_the_visitor_id_as_sent(
    server: TestClient[Litestar], workspace: Tenant, event: SendClaim
) -> None:
    event(visitorId="laptop", userId="ada")
    event(visitorId="phone", userId="ada")
    item = {"type": "event", "name": "e", "visitorId": "phone"}
    for client, expected in ((visitor(server), "phone"), (workspace.client, "laptop")):
        for body in (item, {"events": [item]}):
            answer = client.post("/api/track", json={"websiteId": workspace.website_id, **body})
            assert answer.json()["results"][0]["visitorId"] == expected


def test_links_older_than_trust_count_as_backend(
    event: SendClaim, identify_publicly: SendClaim, services: Services
) -> None:
    event(visitorId="laptop", userId="ada")
    with services.database.write() as db:
        db.execute(update(visitors).values(trust=None))
        db.execute(update(user_links).values(trust=None))
    identify_publicly("laptop", "mallory")
    assert event(visitorId="phone", userId="ada") == {"visitorId": "laptop"}


@cases(
    ("fields", "expected"),
    [
        ({"visitorId": None}, {"visitorId": "wrong_type"}),
        ({"userId": ""}, {"userId": "too_short"}),
        ({"websiteId": "web_unheard"}, {"websiteId": "unknown_website"}),
        ({"traits": {"$x": 1}}, {"traits.$x": "reserved_property"}),
        ({"traits": [1]}, {"traits": "wrong_type"}),
        (
            {"websiteId": "web_unheard", "userId": None, "sessionId": "s"},
            {"websiteId": "unknown_website", "userId": "wrong_type", "sessionId": "unknown_field"},
        ),
        ({"email": "x@example.com"}, {"email": "unknown_field"}),
        ({"userId": "\x00"}, {"userId": "nul_character"}),
    ],
)
def test_identify_names_every_fault(
    server: TestClient[Litestar],
    workspace: Tenant,
    fields: dict[str, Any],
    expected: dict[str, str],
) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": "v", "userId": "u", **fields}
    answer = visitor(server).post("/api/identify", json=body)
    assert faults(answer) == expected
    assert answer.headers["access-control-allow-origin"] == "*"


def claim_concurrently(
    senders: list[SendClaim], claims: list[tuple[str, str]]
) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(len(senders)) as pool:
        futures = [
            pool.submit(sender, visitorId=visitor_id, userId=user_id)
            for (visitor_id, user_id), sender in zip(claims, cycle(senders), strict=False)
        ]
        return [future.result() for future in futures]


def holds_together(services: Services) -> None:
    """Check that merges form no chain and each user has a canonical visitor that no other has."""
    with services.database.read() as db:
        known = {row.visitor_id: row for row in db.execute(select(visitors))}
        homes = {row.user_id: row.visitor_id for row in db.execute(select(user_links))}
    for row in known.values():
        assert known[row.canonical_id].canonical_id == row.canonical_id, "no chain"
    assert all(
        known[home].canonical_id == home and known[home].user_id == user
        for user, home in homes.items()
    )
    assert len(set(homes.values())) == len(homes)


@pytest.mark.every_database
def test_concurrent_merges_end_in_one_canonical_visitor(
    event: SendClaim, services: Services
) -> None:
    claims = [(f"device-{number % 20}", "u") for number in range(100)]
    answers = claim_concurrently([event] * 8, claims)
    [canonical] = {answer["visitorId"] for answer in answers}
    assert {event(visitorId=f"device-{number}")["visitorId"] for number in range(20)} == {canonical}
    holds_together(services)


def test_concurrent_users_on_one_device_do_not_share_a_visitor(
    event: SendClaim, services: Services
) -> None:
    claims = [("device", f"user-{number % 10}") for number in range(60)]
    answers = claim_concurrently([event] * 8, claims)
    assert len({answer["visitorId"] for answer in answers}) == 10
    holds_together(services)


def test_a_user_that_loses_its_visitor_gets_a_new_one(
    event: SendClaim, identify_publicly: SendClaim, workspace: Tenant, services: Services
) -> None:
    """On a shared device, a browser claims one user, and a backend then claims another."""
    identify_publicly("device", "first")
    assert event(visitorId="device", userId="second")["visitorId"] == "device"
    anew = event(userId="first")["visitorId"]
    assert anew != "device"
    assert event(visitorId="other", userId="first")["visitorId"] == anew
    assert event(visitorId="device", userId="first")["warnings"] == ["identity_conflict"]
    holds_together(services)


def test_an_upgrade_removes_links_that_an_earlier_version_left_behind(
    event: SendClaim, services: Services
) -> None:
    event(visitorId="device", userId="second")
    event(visitorId="own", userId="third")
    left_behind = {"user_id": "first", "visitor_id": "device", "trust": 1, "created_at": 1}
    with services.database.write() as db:
        scope = db.execute(select(visitors.c.scope_id)).scalars().first()
        db.execute(insert(user_links).values(scope_id=scope, **left_behind))
        with Operations.context(MigrationContext.configure(db)):
            import_module("penstock.metadb.migrations.versions.0014_user_links").upgrade()
    holds_together(services)
    with services.database.read() as db:
        assert set(db.execute(select(user_links.c.user_id)).scalars()) == {"second", "third"}
    assert event(visitorId="laptop", userId="first")["visitorId"] == "laptop"


@pytest.mark.full("several nodes")
class TestTwoNodes:
    """Two nodes that share a PostgreSQL database."""

    @pytest.fixture
    def metadb_url(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.fixture
    def nodes(
        self,
        event: SendClaim,
        settings: Settings,
        clock: ShiftedClock,
        warehouse: Warehouse,
        workspace: Tenant,
    ) -> Any:
        with TestClient(
            application(build_services(settings, clock, warehouse)), base_url=BASE_URL
        ) as second:
            client = visitor(second, {"Authorization": workspace.client.headers["Authorization"]})
            yield [event, event_with(client, workspace)]

    def test_merges_on_both_nodes_end_in_one_canonical_visitor(
        self, nodes: list[SendClaim], services: Services
    ) -> None:
        claims = [(f"device-{number % 20}", "u") for number in range(200)]
        answers = claim_concurrently(nodes * 6, claims)
        [canonical] = {answer["visitorId"] for answer in answers}
        assert {
            node(visitorId=f"device-{number}")["visitorId"]
            for number in range(20)
            for node in nodes
        } == {canonical}
        holds_together(services)

    def test_many_users_and_devices_in_all_combinations_hold_together(
        self, nodes: list[SendClaim], services: Services
    ) -> None:
        claims = [(f"device-{number * 7 % 11}", f"user-{number * 5 % 13}") for number in range(300)]
        claim_concurrently(nodes * 6, claims)
        holds_together(services)
