"""A report names the rows that can never act, such as steps that no event completes, and why."""

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


def exclusion(name: str, *alternatives: str, **more: Any) -> Json:
    return step(name, *alternatives, exclude=True, **more)


def diagnostic(name: str) -> Json:
    return step(name, diagnostic=True)


NO_PASS = "also matches the exclusion before it, so no attempt can pass."


@cases(
    ("rows", "expected", "message"),
    [
        (("A", exclusion("C"), "B"), [], None),
        (
            ("A", exclusion("eror"), "B"),
            [(1, 1, "no_events")],
            "There are no events named eror, so the exclusion after step 1 excludes no attempt.",
        ),
        (
            ("A", exclusion("N"), "B"),
            [(1, 1, "no_attempt_id")],
            "0 of 2 events named N have a value of attempt, so the exclusion after step 1 excludes "
            "no attempt.",
        ),
        (("A", exclusion("eror", "C"), "B"), [], None),
        (
            ("A", exclusion("B"), "B"),
            [(1, 1, "excludes_next_step")],
            f"Each event that can complete step 2 {NO_PASS}",
        ),
        (("A", exclusion("*"), "B", "D"), [(1, 1, "excludes_next_step")], None),
        (
            ("A", exclusion("B"), filtered("B")),
            [(1, 1, "excludes_next_step"), (2, 2, "filters")],
            None,
        ),
        (("A", exclusion("B"), step("B", "D")), [], None),
        (("A", {**filtered("B"), "exclude": True}, "B"), [(1, 1, "filters")], None),
        (
            ("A", "B", diagnostic("missing")),
            [(2, 2, "no_events")],
            "There are no events named missing, so the diagnostic row after step 2 counts nothing.",
        ),
        ((diagnostic("N"), "A", "B"), [(0, 0, "no_attempt_id")], None),
        (("A", diagnostic("D"), "B"), [], None),
    ],
)
def test_an_exclusion_or_diagnostic_row_that_cannot_act_is_named(
    scene: Scene, rows: tuple[Any, ...], expected: list[Any], message: str | None
) -> None:
    scene.story("0/A 5/C 10/B", attempt="a2")
    report = scene.results(scene.attempts(*rows))
    rows_named = [(row["row"], row["step"], row["reason"]) for row in report["impossibleSteps"]]
    assert rows_named == expected
    if message is not None:
        assert report["impossibleSteps"][0]["message"] == message


def test_a_quiet_period_makes_no_exclusion_impossible(scene: Scene) -> None:
    scene.story(f"{4 * HOUR_S}/C", attempt="a3")
    funnel_id = scene.attempts("A", exclusion("C"), "B")
    assert impossible(scene.results(funnel_id, **scene.period(0, HOUR_S))) == []


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
