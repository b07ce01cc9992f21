"""Attempts by a trait of the visitor, such as companies. See docs/funnels.md."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.cases import cases
from tests.funnels.answers import faults
from tests.funnels.scenario import Json, Scene, column, counts, rows_of
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

COMPANY = "$trait.company"


def by_keys(scene: Scene, *keys: str) -> str:
    """Create a funnel A -> B of attempts with these keys."""
    return scene.attempts("A", "B", attemptProperties=keys or (COMPANY,), attemptProperty=None)


def units(scene: Scene, funnel_id: str) -> list[Any]:
    return sorted(map(json.loads, scene.names(funnel_id)))


def trace(scene: Scene, funnel_id: str, *name: str) -> Json:
    return scene.trace(funnel_id, quote(json.dumps(name), safe=""))


@pytest.fixture
def companies(scene: Scene) -> Scene:
    """Ann and Bob are at Acme, Cid at company 5, and nobody has identified Dan."""
    scene.story("0/A", visitor="ann", attempt=None, cart=1)
    scene.story("10/B", visitor="bob", attempt=None, cart=2)
    scene.story("20/A", visitor="cid", attempt=None)
    scene.story("30/A 40/B", visitor="dan", attempt=None)
    for visitor, company in (("ann", "acme"), ("bob", "acme"), ("cid", 5)):
        scene.identify(f"u-{visitor}", visitor, traits={"company": company})
    return scene


def test_the_visitors_of_a_company_are_one_unit(companies: Scene) -> None:
    funnel_id = by_keys(companies)
    report = companies.results(funnel_id)
    assert counts(report) == [2, 1]
    quality = report["dataQuality"]
    assert quality["eventsWithoutAttemptId"] == 2
    assert quality["attemptsWithSeveralVisitors"] == 1
    assert units(companies, funnel_id) == [["5"], ["acme"]]
    record = trace(companies, funnel_id, "acme")
    assert column(record["events"], "decision") == ["entry", "accepted"]
    assert column(record["events"], "visitorId") == ["ann", "bob"]


def test_changes_of_traits_merges_and_deletions_change_units(companies: Scene) -> None:
    funnel_id = by_keys(companies)
    assert companies.counts(funnel_id) == [2, 1]
    companies.identify("u-bob", "bob", traits={"company": "other"})
    assert companies.counts(funnel_id) == [2, 0]
    companies.identify("u-cid", "cid", traits={"company": "acme"})
    assert units(companies, funnel_id) == [["acme"]]
    companies.identify("u-bob", "dan")
    assert companies.counts(funnel_id) == [2, 1]
    companies.identify("u-ann", "ann", traits={"company": None})
    assert units(companies, funnel_id) == [["acme"], ["other"]]
    companies.delete(userId="u-bob")
    assert units(companies, funnel_id) == [["acme"]]


def test_a_trait_and_a_property_form_an_attempt_id_together(companies: Scene) -> None:
    funnel_id = by_keys(companies, COMPANY, "cart")
    companies.story("50/B", visitor="bob", attempt=None, cart="1")
    assert companies.counts(funnel_id) == [1, 1]
    assert units(companies, funnel_id) == [["acme", "1"]]
    assert trace(companies, funnel_id, "acme", "1")["outcome"] == "completed"


@cases("value", [None, "", "  ", "null", "UNDEFINED", True, 1.5, ["acme"]])
def test_a_trait_that_is_no_id_gives_no_attempt(scene: Scene, value: Any) -> None:
    scene.story("0/A", visitor="ann", attempt=None)
    scene.identify("u-ann", "ann", traits={"company": value})
    assert scene.counts(by_keys(scene)) == [0, 0]


def test_every_question_knows_units_by_a_trait(companies: Scene) -> None:
    funnel_id = by_keys(companies)
    rows = companies.table(funnel_id, "export/units")
    assert sorted(row["unit"] for row in rows) == ['["5"]', '["acme"]']
    for what in ("trend", "timing", "verdict", "drivers", "flows", "next"):
        query = {"step": 1} if what in ("drivers", "flows", "next") else {}
        answer = companies.request(funnel_id, what, **query)
        assert answer.status_code == 200, answer.text
    assert companies.results(funnel_id, breakdown=COMPANY)["cohorts"]["total"] == 2
    cohort = {"name": "Acme", "kind": "list", "funnelId": funnel_id, "parameters": {"step": "2"}}
    saved = companies.client.post("/api/cohorts", json=cohort).json()
    listed = companies.client.get(f"/api/cohorts/{saved['id']}/visitors").json()["data"]
    assert column(listed, "visitorId") == ["ann"]


def test_an_event_without_the_trait_is_explained(companies: Scene) -> None:
    funnel_id = by_keys(companies)
    event = companies.server_event(50, "A", visitorId="dan")
    record = companies.report(funnel_id, "explain", eventId=event["eventId"])
    assert not record["counts"]
    assert "$trait.company must be an integer, or a text" in record["explanation"]


@cases(
    ("keys", "expected"),
    [
        (["$trait."], "attemptProperties[0] too_short"),
        (["$country"], "attemptProperties[0] builtin_not_allowed"),
        (["$cohort.coh_1"], "attemptProperties[0] builtin_not_allowed"),
        ([COMPANY, COMPANY], "attemptProperties[1] repeated"),
    ],
)
def test_an_unsuitable_key_is_named(workspace: Tenant, keys: list[str], expected: str) -> None:
    body = {"name": "f", "steps": rows_of("AB"), "countingUnit": "attempt"}
    answer = workspace.client.post("/api/funnels", json={**body, "attemptProperties": keys})
    assert faults(answer) == [expected]
