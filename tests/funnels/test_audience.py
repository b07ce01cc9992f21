"""Whom a report counts, over HTTP: the share of all visitors, and what its choices left out."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, where
from tests.funnels.test_internal_traffic import leave_out
from tests.funnels.test_segments import save
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

PRO = where("plan", value="pro")
GERMAN = where("country", "in", '["DE"]')
STAFF = where("email", "ends_with", "@example.com")
NOTHING = {"internal": None, "segment": None, "filters": None}


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


def audience(scene: Scene, funnel_id: str, **query: Any) -> Json:
    record: Json = scene.results(funnel_id, audience="true", **query)["audience"]
    return record


def test_only_a_request_that_asks_learns_the_audience(scene: Scene) -> None:
    scene.story("0/A 10/B", attempt=None)
    funnel_id = scene.funnel("A", "B")
    assert scene.results(funnel_id)["audience"] is None
    assert audience(scene, funnel_id) == {
        "visitors": 1,
        "entered": 1,
        "share": 1.0,
        "leftOut": NOTHING,
    }
    assert len(scene.table(funnel_id, "export", audience="true")) == 1


def test_visitors_of_attempts_count_once_and_only_in_the_period(scene: Scene) -> None:
    scene.story("0/A 10/A", attempt="a1", visitor="ann")
    scene.story("20/A", attempt="a2", visitor="ann")
    scene.story("30/A", attempt="a3", visitor="bob")
    scene.story("40/x", attempt=None, visitor="eve")
    scene.story(f"{DAY_S}/x", attempt=None, visitor="later")
    funnel_id = scene.attempts("A", "B")
    record = audience(scene, funnel_id, **scene.period(0, HOUR_S))
    assert (record["visitors"], record["entered"], record["share"]) == (3, 2, 0.6667)
    assert audience(scene, funnel_id)["visitors"] == 4
    scene.identify("user", "ann", "bob")
    record = audience(scene, funnel_id, **scene.period(0, HOUR_S))
    assert (record["visitors"], record["entered"], record["share"]) == (2, 1, 0.5)
    empty = audience(scene, funnel_id, **scene.period(-DAY_S, 0))
    assert (empty["visitors"], empty["entered"], empty["share"]) == (0, 0, None)


def test_a_visitor_of_several_runs_counts_once(scene: Scene) -> None:
    scene.story(f"0/A 10/B {DAY_S}/A", attempt=None)
    scene.story("0/x", attempt=None, visitor="bob")
    runs = scene.funnel("A", "B", repeat=True, conversionWindowSeconds=HOUR_S)
    assert scene.results(runs)["aggregate"]["entered"] == 2
    assert audience(scene, runs)["entered"] == 1


def test_a_choice_leaves_out_those_who_would_have_entered_without_it(
    scene: Scene, workspace: Tenant
) -> None:
    for number, (plan, country, email) in enumerate(
        [
            ("pro", "DE", "a@customer.org"),
            ("pro", "FR", "a@customer.org"),
            ("pro", "FR", "a@customer.org"),
            ("basic", "DE", "a@customer.org"),
            ("basic", "FR", "a@customer.org"),
            ("pro", "DE", "a@example.com"),
            ("basic", "DE", "a@example.com"),
        ]
    ):
        more = {"plan": plan, "country": country, "email": email}
        scene.story("0/A 10/B", attempt=f"a{number}", **more)
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    segment = save(workspace.client, {"name": "Pro", "filters": [PRO]})["id"]
    leave_out(workspace.client, STAFF)
    everything = {"segment": segment, "filters": [GERMAN]}

    def left_out(**query: Any) -> Json:
        record: Json = audience(scene, funnel_id, **query)["leftOut"]
        return record

    assert left_out() == NOTHING | {"internal": 2}
    assert left_out(internal="true") == NOTHING
    assert left_out(segment=segment) == {"internal": 1, "segment": 2, "filters": None}
    assert left_out(**everything) == {"internal": 1, "segment": 1, "filters": 2}
    # In all cohorts, settled or not.
    narrow = {"cohort": {"plan": "basic"}, "settled": "true"}
    assert left_out(**everything, **narrow) == left_out(**everything)
    # The figures are the differences of reports.
    entered = scene.results(funnel_id, **everything)["aggregate"]["entered"]
    without = scene.results(funnel_id, segment=segment)["aggregate"]["entered"]
    assert without - entered == 2


@pytest.mark.parametrize("by_attempt", [True, False], ids=["attempts", "visitors"])
def test_random_entries_agree_with_a_plain_count(
    scene: Scene, workspace: Tenant, *, by_attempt: bool
) -> None:
    """An attempt enters with its first A, a visitor with any A in the period that may enter."""
    random = Random(7)
    events = []
    for number in range(400):
        events.append(
            {
                "at": number,
                "name": random.choice(["A", "A", "B", "x"]),
                "visitor": f"v{random.randrange(60)}",
                "attempt": f"a{random.randrange(120)}",
                "plan": random.choice(["pro", "basic"]),
                "country": random.choice(["DE", "FR"]),
                "email": random.choice(["a@example.com", *["a@customer.org"] * 3]),
            }
        )
    scene.track(
        scene.item(
            event["at"],
            event["name"],
            event["visitor"],
            **{key: event[key] for key in ("attempt", "plan", "country", "email")},
        )
        for event in events
    )
    start, end = 100, 300
    passes: dict[str, Callable[[Json], bool]] = {
        "internal": lambda event: not event["email"].endswith("@example.com"),
        "segment": lambda event: event["plan"] == "pro",
        "filters": lambda event: event["country"] == "DE",
    }

    def entries(*choices: str) -> dict[str, Json]:
        first: dict[str, Json] = {}
        for event in events:
            unit = event["attempt" if by_attempt else "visitor"]
            may_enter = all(passes[name](event) for name in choices)
            if event["name"] != "A" or unit in first:
                continue
            if by_attempt or (may_enter and start <= event["at"] < end):
                first[unit] = event | {"passes": may_enter}
        return {
            unit: event
            for unit, event in first.items()
            if event["passes"] and start <= event["at"] < end
        }

    counted = entries(*passes)
    everybody = {event["visitor"] for event in events if start <= event["at"] < end}
    entered = {event["visitor"] for event in counted.values()}
    expected = {
        "visitors": len(everybody),
        "entered": len(entered),
        "share": round(len(entered) / len(everybody), 4),
        "leftOut": {
            name: len(entries(*(passes.keys() - {name}))) - len(counted) for name in passes
        },
    }
    segment = save(workspace.client, {"name": "Pro", "filters": [PRO]})["id"]
    leave_out(workspace.client, STAFF)
    funnel_id = (
        scene.attempts("A", "B", sequenceProperty=None) if by_attempt else scene.funnel("A", "B")
    )
    query = {"segment": segment, "filters": [GERMAN], **scene.period(start, end)}
    assert scene.results(funnel_id, **query)["aggregate"]["entered"] == len(counted)
    assert audience(scene, funnel_id, **query) == expected
    assert min(expected["leftOut"].values()) > 0
