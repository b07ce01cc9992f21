"""A report names the steps that no event can complete, and why."""

from typing import Any

import pytest

from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.funnels.scenario import HOUR_S, Json, Scene, column, counts, step
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    scene = Scene(workspace, clock)
    scene.story("0/A 10/B 15/D", attempt="a1", plan="pro")
    scene.story("20/N 30/N", attempt=None)
    return scene


def filtered(name: str, *alternatives: str) -> Json:
    match: Json = {"filters": [{"property": "plan", "operator": "equals", "value": "max"}]}
    return {**step(name, *alternatives), **match}


def impossible(report: Json) -> list[Any]:
    return [(row["step"], row["reason"], row["events"]) for row in report["impossibleSteps"]]


@cases(
    ("rows", "expected", "messages"),
    [
        (("A", "B"), [], []),
        (("B", "A"), [], []),
        (
            ("A", "N", "B"),
            [(2, "no_attempt_id", 2)],
            ["0 of 2 events named N have a value of attempt, so step 2 can never be reached."],
        ),
        (
            ("A", "missing", "B"),
            [(2, "no_events", 0)],
            ["There are no events named missing, so step 2 can never be reached."],
        ),
        (
            ("A", filtered("B")),
            [(2, "filters", 1)],
            ["0 of 1 events named B pass the filters, so step 2 can never be reached."],
        ),
        (("missing", "A"), [(1, "no_events", 0)], None),
        (("A", step("missing", "D")), [], []),
        (("A", step("missing", "N")), [(2, "no_attempt_id", 2)], None),
        (("A", step("B", "N", mode="all_of")), [(2, "no_attempt_id", 2)], None),
    ],
)
def test_a_step_that_no_event_can_complete_is_named(
    scene: Scene, rows: tuple[Any, ...], expected: list[Any], messages: list[str] | None
) -> None:
    report = scene.results(scene.attempts(*rows))
    assert impossible(report) == expected
    if messages is not None:
        assert column(report["impossibleSteps"], "message") == messages


def test_visitors_need_no_attempt_id(scene: Scene) -> None:
    funnel_id = scene.funnel("B", "N", "A", conversionWindowSeconds=HOUR_S)
    report = scene.results(funnel_id)
    assert counts(report) == [1, 1, 0]
    assert impossible(report) == []


def test_only_events_of_the_period_and_its_windows_count(scene: Scene) -> None:
    scene.story(f"{2 * HOUR_S}/A", attempt="a2")
    scene.story(f"{4 * HOUR_S}/C", attempt="a3")
    funnel_id = scene.attempts("A", "C")
    assert impossible(scene.results(funnel_id)) == []
    early = scene.period(0, HOUR_S)
    assert impossible(scene.results(funnel_id, **early)) == [(2, "no_events", 0)]
    late = scene.period(2 * HOUR_S, 3 * HOUR_S)
    assert impossible(scene.results(funnel_id, **late)) == [(2, "no_events", 0)]
    later = scene.period(2 * HOUR_S, 3 * HOUR_S + 1)
    assert impossible(scene.results(funnel_id, **later)) == []


def test_a_preview_names_them_too(scene: Scene) -> None:
    draft = {
        "steps": [step("A"), step("missing")],
        "countingUnit": "visitor",
        "conversionWindowSeconds": HOUR_S,
    }
    answer = scene.client.post("/api/funnels/preview", json=draft)
    assert answer.status_code == 200, answer.text
    assert impossible(answer.json()) == [(2, "no_events", 0)]
