"""Traits: the newest statement about a trait holds, in whatever order statements arrive."""

from itertools import permutations
from typing import Any

import pytest

from penstock.identity.model import StatedTraits, Trust
from penstock.identity.traits import Statements, add_traits, current_traits, trait_times
from tests.cases import cases
from tests.events.imports.conftest import importer
from tests.tenant import Tenant, new_browser

Call = tuple[Trust, StatedTraits]
NOW_MS = 1_000


def live(trust: Trust = Trust.BACKEND, at_ms: int | None = None, **values: Any) -> Call:
    return trust, StatedTraits(values, at_ms=at_ms)


def imported(at_ms: int | None, once: dict[str, Any] | None = None, **values: Any) -> Call:
    return Trust.BACKEND, StatedTraits(values, once or {}, at_ms, is_import=True)


def after(*calls: Call) -> Statements:
    statements: Statements = {}
    for trust, stated in calls:
        statements = add_traits(statements, stated, trust, NOW_MS)
    return statements


@cases(
    ("calls", "expected"),
    [
        ([live(at_ms=2, plan="pro"), imported(1, plan="free", city="Bonn")],
         {"plan": "pro", "city": "Bonn"}),
        ([live(Trust.PUBLIC, 3, plan="pro"), imported(1, plan="free"), imported(2, plan="team")],
         {"plan": "pro"}),
        ([live(at_ms=1, plan="pro"), imported(2, plan="free")], {"plan": "free"}),
        ([live(at_ms=1, plan="b"), live(Trust.PUBLIC, 3, plan="p"), imported(2, plan="i")],
         {"plan": "i"}),
        ([live(at_ms=1, plan="b"), live(Trust.SIGNED, 2, plan="s", seats=1)],
         {"plan": "b", "seats": 1}),
        ([imported(2, once={"first": "b"}), imported(1, once={"first": "a"})], {"first": "a"}),
        ([imported(1, once={"plan": "a"}), imported(3, plan="c"), live(at_ms=2, plan="b")],
         {"plan": "c"}),
        ([live(at_ms=1, plan="pro"), live(at_ms=2, plan=None)], {}),
        ([imported(5, plan="a"), imported(5, plan="b"), imported(5, plan={"x": 1, "a": 2})],
         {"plan": "a"}),
        ([live(at_ms=5, plan="b"), imported(5, plan="a")], {"plan": "b"}),
    ],
)  # fmt: skip
def test_the_newest_statement_holds_in_any_order(
    calls: list[Call], expected: dict[str, Any]
) -> None:
    for order in permutations(calls):
        assert current_traits(after(*order)) == expected, order


def test_a_statement_without_a_time_is_newer_than_all_before() -> None:
    statements = after(live(plan="a"), live(plan="b"), imported(None, plan="c"), live(plan="a"))
    assert current_traits(statements) == {"plan": "a"}
    assert trait_times(statements) == {"plan": NOW_MS + 3}


def test_a_value_that_a_backend_removed_is_not_kept() -> None:
    calls = [
        imported(1, {"city": "Rome"}, city="Bonn"),
        live(Trust.PUBLIC, 2, city="Rome"),
        imported(3, city="Bonn"),
        live(at_ms=4, city=None),
    ]
    for order in permutations(calls):
        assert after(*order) == {"city": {"live": (Trust.BACKEND, 4, None)}}


def test_a_user_keeps_as_many_traits_as_a_call_may_have() -> None:
    calls = [live(at_ms=number, **{f"t{number}": number, "seats": number}) for number in range(300)]
    expected = {f"t{number}": number for number in range(46, 300)} | {"seats": 299}
    for order in (calls, calls[::-1]):
        assert current_traits(after(*order)) == expected
    backend, flood = live(at_ms=1, plan="pro"), {f"x{number}": 1 for number in range(255)}
    assert current_traits(after(backend, live(Trust.PUBLIC, 2, **flood)))["plan"] == "pro"
    long = [live(at_ms=number, **{f"t{number}": "x" * 8_000}) for number in range(20)]
    assert list(current_traits(after(*long))) == [f"t{number}" for number in range(19, 11, -1)]


import_lines = importer("ndjson")


def plan_of(workspace: Tenant) -> Any:
    """The plan of the only visitor with events, in a report and on the page of visitor v."""
    match = {"type": "Event", "value": "used"}
    definition = {"steps": [match, match], "breakdownProperties": ["$trait.plan"]}
    preview = workspace.client.post("/api/funnels/preview", json=definition)
    [row] = preview.raise_for_status().json()["cohorts"]["data"]
    profile = workspace.client.get("/api/visitors/v").raise_for_status().json()
    assert profile["user"]["traits"]["plan"] == row["cohort"]["$trait.plan"]
    return row["cohort"]["$trait.plan"]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("has_key", [True, False])
def test_an_import_of_the_past_leaves_what_was_stated_since(
    workspace: Tenant, import_lines: Any, has_key: bool
) -> None:
    client = workspace.client if has_key else new_browser(workspace)
    body = {"websiteId": workspace.website_id, "visitorId": "v", "userId": "ann"}
    sent = client.post("/api/identify", json={**body, "traits": {"plan": "pro"}})
    assert sent.status_code == 200
    at = {"timestamp": "2024-05-01T10:00:00Z"}
    event = {"type": "event", "name": "used", "userId": "ann", **at}
    identify = {"type": "identify", "userId": "ann"}
    import_lines(event, identify | at | {"traits": {"plan": "free"}, "traitsOnce": {"plan": 1}})
    assert plan_of(workspace) == "pro"
    import_lines(event, identify | {"traits": {"plan": "team"}})
    assert plan_of(workspace) == "team", "a line without a time states its traits now"
