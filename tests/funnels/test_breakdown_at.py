"""Breakdowns by the values of another event than the entry (`breakdownAt`)."""

from typing import Any

import pytest

from tests.cases import cases
from tests.funnels.answers import faults
from tests.funnels.scenario import Scene, by_cohort, column, pick, rows_of, step

pytestmark = pytest.mark.usefixtures("warehouse")

STEPS = ("cart_viewed", "paid", "delivered")


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    """A funnel over three orders with methods: of two that were paid, one was delivered."""
    stories = {
        "full": [("cart_viewed", None), ("paid", "card"), ("delivered", "post")],
        "paid": [("cart_viewed", None), ("paid", "cash")],
        "seen": [("cart_viewed", None)],
    }
    for attempt, events in stories.items():
        scene.track(
            scene.item(
                at * 10, name, attempt=attempt, **({} if method is None else {"method": method})
            )
            for at, (name, method) in enumerate(events)
        )
    return scene.attempts(*STEPS, sequenceProperty=None, breakdownProperties=["method"])


@pytest.mark.parametrize(
    ("at", "completed"),
    [
        (None, {None: 1}),
        ("entry", {None: 1}),
        ("1", {None: 1}),
        ("2", {"card": 1, "cash": 0, None: 0}),
        ("3", {"post": 1, None: 0}),
        ("first", {"card": 1, "cash": 0, None: 0}),
        ("last", {"post": 1, "cash": 0, None: 0}),
    ],
)
def test_the_value_comes_from_the_chosen_event(
    scene: Scene, funnel_id: str, at: str | None, completed: dict[Any, int]
) -> None:
    query = {} if at is None else {"breakdownAt": at}
    report = scene.results(funnel_id, **query)
    assert by_cohort(report, "method", figure="completed") == completed
    is_entry = at in (None, "entry", "1")
    assert report.get("breakdownAt") == (None if is_entry else int(at) if at.isdigit() else at)
    assert ("breakdown_at" in report["coverage"]["noteCodes"]) == (not is_entry)
    unknown = report["dataQuality"]["unknownEntryValues"]["method"]
    assert unknown == 3 if is_entry else unknown == {"3": 2}.get(at or "", 1)


def test_every_answer_uses_and_states_it(scene: Scene, funnel_id: str) -> None:
    query = {"breakdownAt": "2"}
    cohort = {"cohort": {"method": "card"}}
    for what in ("results", "trend", "timing", "units", "verdict"):
        report = scene.report(funnel_id, what, **query, **cohort)
        assert report["breakdownAt"] == 2
        assert report["asked"]["breakdownAt"] == 2
        assert report["directReason"] == "breakdown_at"
    assert scene.names(funnel_id, **query, **cohort) == ["full"]
    compared = scene.report(funnel_id, "compare", property="method", **query)
    values = [item["cohort"]["method"] for item in compared["cohorts"]]
    assert sorted(map(str, values)) == ["None", "card", "cash"]
    total, *_ = scene.table(funnel_id, "export", **query)
    assert total["asked_breakdown_at"] == "2"
    trace = scene.trace(funnel_id, "full", **query)
    value = trace["entryValues"]["method"]
    assert pick(value, "value", "how") == ("card", "event")
    assert value["eventIds"] == [trace["steps"][1]["eventId"]]
    assert column(trace["conflicts"], "value") == ["post"]


def test_tied_events_of_a_step_must_agree(scene: Scene) -> None:
    for attempt, other in (("agree", "pro"), ("disagree", "free")):
        scene.story("0/A", attempt=attempt)
        scene.story("5/B", attempt=attempt, plan="pro")
        scene.story("5/B", attempt=attempt, plan=other)
    funnel = scene.attempts("A", "B", breakdownProperties=["plan"], breakdownAt=2)
    report = scene.results(funnel)
    assert by_cohort(report, "plan") == {"pro": 1, None: 1}
    assert report["dataQuality"]["tiedEntries"] == 2


def test_first_and_last_take_each_property_from_its_own_event(scene: Scene) -> None:
    scene.story("0/A", attempt="a", plan="free")
    scene.story("5/B", attempt="a", plan="pro", color="red")
    scene.story("9/B", attempt="a", plan="team", color="blue")  # Not accepted.
    funnel = scene.attempts("A", "B", breakdownProperties=["plan", "color"], breakdownAt="last")
    assert by_cohort(scene.results(funnel), "plan", "color") == {("pro", "red"): 1}
    first = scene.results(funnel, breakdownAt="first")
    assert by_cohort(first, "plan", "color") == {("free", "red"): 1}
    assert first["dataQuality"]["conflictingEntryValues"] == {"plan": 1, "color": 0}
    [unit] = scene.units(funnel).values()
    assert unit["cohort"] == {"plan": "pro", "color": "red"}


@cases(
    ("at", "fault"),
    [
        (0, "breakdownAt out_of_range"),
        (4, "breakdownAt out_of_range"),
        ("second", "breakdownAt not_one_of"),
    ],
)
def test_a_step_that_does_not_exist_is_refused(
    scene: Scene, funnel_id: str, at: Any, fault: str
) -> None:
    body = {"name": "F", "steps": rows_of(STEPS), "breakdownAt": at}
    assert faults(scene.client.post("/api/funnels", json=body)) == [fault]
    assert faults(scene.request(funnel_id, "results", breakdownAt=at), 400) == [fault]


def test_a_record_carries_it_only_if_it_is_not_the_entry(scene: Scene) -> None:
    funnel = scene.funnel("A", step("D", diagnostic=True), "B", "C", breakdownAt=1)
    assert "breakdownAt" not in scene.definition(funnel)
    body = scene.definition(funnel) | {"breakdownAt": 3}
    scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert scene.definition(funnel)["breakdownAt"] == 3
    changes = ["Breakdown by the values of the entry event -> step 3"]
    assert scene.changes(funnel) == changes
