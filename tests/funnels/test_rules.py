"""Each rule of counting attempts, with a scenario over the API, and the worked examples."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from penstock.warehouse.client import Warehouse
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.events.conftest import finished
from tests.funnels import reference
from tests.funnels.scenario import (
    ATTEMPTS,
    DAY_S,
    HOUR_S,
    Json,
    Scene,
    by_cohort,
    column,
    counts,
    outcome,
    pick,
    rows_of,
    step,
)
from tests.funnels.seed import store
from tests.funnels.stories import evaluate_story
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

WORKED_EXAMPLES = [
    ("0/A 10/B 20/C", 3, "plain"),
    ("0/B 5/A 10/C", 1, "B came before the entry"),
    ("0/A 0/B 20/C", 1, "a tie without numbers"),
    ("0/A(1) 0/B(2) 0/C(3)", 3, "numbers prove the order"),
    ("0/A(1) 0/B(1) 9/B(2) 10/C(3)", 3, "the tied B is passed over, the later one counts"),
    ("0/A(5) 10/B(4) 20/B(6) 30/C(7)", 3, "a sequence skip, then it goes on"),
    ("0/A(1) 10/B 20/C(1)", 2, "1 is not greater than 1"),
    ("0/A(1) 3600/B(2)", 2, "the window's end is inside"),
    ("0/A 10/A 20/B", 2, "the first A is the entry"),
]

MORE_WINDOWS = pytest.mark.full("the same rule for windows in other units")
SENT = ("as told", "backwards")
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def today(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Stories that started a minute ago."""
    return Scene(workspace, clock, ago_s=60)


class Story(NamedTuple):
    """The story of an attempt, over the steps A, B and C.

    reached: the last step that it completes. issues: what its unit notes about the order of its
    events; None if the story is not about that. sent: order of sending.
    """

    text: str
    reached: int
    issues: Json | None = None
    sent: str = "as told"


ISSUES = ("sequenceSkips", "unorderedTies", "invalidSequenceValues")
UNUSABLE_NUMBERS = ["-1", "1.5", '"2"', "true", "{}", "[2]", "9223372036854775808"]
ORDER: dict[str, Story] = {
    **{name: Story(text, reached) for text, reached, name in WORKED_EXAMPLES},
    "rule05: offline events count at their own time": Story("0/A 10/B 20/C", 3, {}, "backwards"),
    "rule06: numbers prove the order of equal times": Story(
        "0/A(1) 0/B(2) 0/C(3)", 3, {}, "backwards"
    ),
    "rule06: the other way round nothing follows the entry": Story("0/A(3) 0/B(2) 0/C(1)", 1, {}),
    "rule06: without numbers nothing is proven": Story("0/A(1) 0/B 0/C", 1, {"unorderedTies": 1}),
    "rule06: numbers are exact up to the largest": Story(
        "0/A(9223372036854775805) 0/B(9223372036854775806) 0/C(9223372036854775807)", 3, {}
    ),
    **{
        f"rule06: {number} proves nothing and is counted": Story(
            f"0/A(1) 0/B({number})", 1, {"invalidSequenceValues": 1, "unorderedTies": 1}
        )
        for number in UNUSABLE_NUMBERS
    },
    "rule07: a stale number is skipped": Story("0/A(5) 10/B(5) 20/B(4)", 1, {"sequenceSkips": 2}),
    "rule07: after a skip it goes on": Story(
        "0/A(5) 10/B(4) 20/B(6) 30/C(7)", 3, {"sequenceSkips": 1}
    ),
    **{
        f"an attempt with the events of {number} others has the same tie": Story(
            "0/A(1) 0/B(1) 9/B(2)", 2, {"unorderedTies": 1}
        )
        for number in range(20)
    },
}
"""Stories whose order decides, by attempt ID. Events without a proven order are read as they were
sent, not at random.
"""


def test_time_and_numbers_decide_how_far_an_attempt_gets(
    scene: Scene, subtests: pytest.Subtests
) -> None:
    for name, story in ORDER.items():
        scene.story(story.text, attempt=name, sent=story.sent)
    funnel = scene.attempts("A", "B", "C")
    units = scene.units(funnel)
    for name, story in ORDER.items():
        with subtests.test(name):
            unit = units[name]
            assert unit["reached"] == story.reached
            assert unit["completedAt"] is None or unit["entryAt"] <= unit["completedAt"]
            if story.issues is not None:
                assert pick(unit, *ISSUES) == tuple(story.issues.get(name, 0) for name in ISSUES)
    assert units["rule05: offline events count at their own time"]["completedAt"] == scene.at(20)
    with subtests.test("the report adds them up"):
        report = scene.results(funnel)
        reached = [story.reached for story in ORDER.values()]
        assert counts(report) == [sum(each >= step for each in reached) for step in (1, 2, 3)]
        quality = report["dataQuality"]
        for issue in ISSUES:
            assert quality[issue] == sum(unit[issue] for unit in units.values())
        assert quality["unitsWithOrderingIssues"] == sum(
            any(unit[issue] for issue in ISSUES) for unit in units.values()
        )


@pytest.mark.parametrize(
    ("story", "reached"),
    [case[:2] for case in WORKED_EXAMPLES],
    ids=[case[2] for case in WORKED_EXAMPLES],
)
def test_worked_example_in_the_reference_evaluation(story: str, reached: int) -> None:
    report, _ = evaluate_story(story, {**ATTEMPTS, "steps": rows_of("ABC")}, attempt="a1")
    assert counts(report) == [1] * reached + [0] * (3 - reached)


def test_rule01_the_whole_first_group_starts_the_attempt(scene: Scene) -> None:
    funnel = scene.attempts(step("A", "B", mode="all_of"), "C", breakdownProperties=["variant"])
    scene.story("0/A", attempt="whole", variant="early")
    scene.story("1800/B 5400/C", attempt="whole", variant="entry")
    scene.story("0/A 10/C", attempt="unfinished", variant="early")
    report = scene.results(funnel)
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    assert report["aggregate"]["medianCompletionMinutes"] == 60
    assert by_cohort(report, "variant") == {"entry": 1}


def test_rule01_a_part_of_the_first_group_after_the_window_of_the_other_still_starts_it(
    scene: Scene,
) -> None:
    scene.story("0/A 7200/B 7300/C")
    assert scene.counts(scene.attempts(step("A", "B", mode="all_of"), "C")) == [1, 1]


def test_rule02_a_resumed_journey_is_one_attempt_a_restarted_one_is_another(scene: Scene) -> None:
    scene.story("0/A", attempt="first", visitor="phone")
    scene.story("600/B 700/C", attempt="first", visitor="laptop")
    scene.story("900/A 910/B", attempt="second", visitor="laptop")
    report = scene.results(scene.attempts("A", "B", "C"))
    assert counts(report) == [2, 2, 1]
    assert report["dataQuality"]["attemptsWithSeveralVisitors"] == 1


def test_rule02_an_attempt_continues_on_another_website_of_the_workspace(scene: Scene) -> None:
    app = scene.website("App", "mobile")
    funnel = scene.attempts("A", "B")
    scene.story("0/A")
    answer = scene.client.post(
        "/api/track", json={"websiteId": app, **scene.item(10, "B", "other", attempt="a1")}
    )
    assert answer.status_code == 202
    assert scene.counts(funnel) == [1, 1]
    assert scene.counts(funnel, websiteId=scene.tenant.website_id) == [1, 0]
    assert scene.counts(funnel, websiteId=app) == [0, 0]


def test_rule02_an_integer_and_its_text_are_one_attempt(scene: Scene) -> None:
    scene.story("0/A", attempt=5)
    scene.story("10/B", attempt="5")
    scene.story("0/A", attempt="05")
    assert scene.counts(scene.attempts("A", "B")) == [2, 1]


NO_ATTEMPT_IDS = [
    None, "", True, 1.5, {"id": 1}, ["a1"], " ", "    ", "null", "NULL", "Undefined",
]  # fmt: skip


def test_rule03_an_event_without_attempt_id_cannot_advance(scene: Scene) -> None:
    funnel = scene.attempts("A", "B", "C")
    for number, no_id in enumerate(NO_ATTEMPT_IDS, start=1):
        scene.story("0/A 20/C", attempt=f"a{number}")
        scene.story("10/B", attempt=no_id)
        report = scene.results(funnel)
        assert counts(report) == [number, 0, 0], no_id
        assert report["dataQuality"]["eventsWithoutAttemptId"] == number, no_id


def test_rule04_a_repeated_screen_needs_a_new_event(scene: Scene) -> None:
    screen = {"type": "Screen view", "value": "Paywall"}
    funnel = scene.attempts(screen, screen)
    scene.track(
        scene.screenview(second, "Paywall", attempt=attempt)
        for second, attempt in ((0, "once"), (0, "twice"), (9, "twice"))
    )
    assert scene.counts(funnel) == [2, 1]


def test_rule06_without_sequence_property_ties_stay_unordered(scene: Scene) -> None:
    scene.story("0/A(1) 0/B(2)")
    assert scene.counts(scene.attempts("A", "B", sequenceProperty=None)) == [1, 0]


def test_rule06_the_order_of_arrival_changes_no_count_of_ties(scene: Scene) -> None:
    for sent in SENT:
        scene.story("0/A 0/B", attempt=f"at the entry, {sent}", sent=sent)
        scene.story("0/A(1)", attempt=f"later, {sent}")
        scene.story("5/B(2) 5/C(2) 9/C(3)", attempt=f"later, {sent}", sent=sent)
        scene.story("0/A(1)", attempt=f"proven before, {sent}")
        scene.story("5/C(1) 5/B(2) 9/C(3)", attempt=f"proven before, {sent}", sent=sent)
    funnel = scene.attempts("A", "B", "C")
    quality = scene.results(funnel)["dataQuality"]
    assert pick(quality, "unorderedTies", "unitsWithOrderingIssues") == (4, 4)
    units = scene.units(funnel)
    for sent in SENT:
        expected = {"at the entry": (1, 1), "later": (3, 1), "proven before": (3, 0)}
        for attempt, figures in expected.items():
            unit = units[f"{attempt}, {sent}"]
            assert pick(unit, "reached", "unorderedTies") == figures, (attempt, sent)
        trace = scene.trace(funnel, f"at the entry, {sent}")
        tie = next(event for event in trace["events"] if event["name"] == "B")
        assert (tie["decision"], tie["step"]) == ("unorderedTie", 2)
        assert tie["explanation"] == (
            "Not accepted for step 2: it has the same timestamp as the event that completed step "
            "1, and no sequence numbers on both prove which came first."
        )


def test_rule06_an_event_that_served_a_step_is_not_a_tie(scene: Scene) -> None:
    """Parts of a group may have equal times, and may match the next step."""
    for sent in SENT:
        scene.story("0/A 0/B", attempt=sent, sent=sent)
    report = scene.results(scene.attempts(step("A", "B", mode="all_of"), step("A", "B")))
    assert report["aggregate"]["entered"] == 2
    assert report["dataQuality"]["unorderedTies"] == 0


def test_rule07_numbers_of_a_first_group_count_as_accepted(scene: Scene) -> None:
    scene.story("0/A(5) 10/B 20/C(4)", attempt="stale")
    scene.story("0/A(5) 10/B 20/C(6)", attempt="fresh")
    report = scene.results(scene.attempts(step("A", "B", mode="all_of"), "C"))
    assert counts(report) == [2, 1]
    assert report["dataQuality"]["sequenceSkips"] == 1


def test_rule07_parts_of_one_group_may_come_in_any_order_but_not_with_stale_numbers(
    scene: Scene,
) -> None:
    funnel = scene.attempts("A", step("B", "C", mode="all_of"), "D")
    scene.story("0/A(1) 10/C(2) 20/B(3) 30/D(4)", attempt="either order")
    scene.story("0/A(1) 10/B(3) 10/C(4) 30/D(5)", attempt="parts tie")
    scene.story("0/A(1) 10/B(3) 20/C(2)", attempt="stale part")
    assert scene.counts(funnel) == [3, 2, 2]


def test_rule08_a_retried_delivery_adds_no_event(scene: Scene) -> None:
    funnel = scene.attempts("A", "A")
    item = {**scene.item(0, "A", attempt="a1"), "dedupeKey": "delivery-1"}
    assert scene.track([item])["accepted"] == 1
    assert scene.track([{**item, "timestamp": scene.at(0)}])["duplicates"] == 1
    assert scene.counts(funnel) == [1, 0]
    scene.track([{**scene.item(5, "A", attempt="a1"), "dedupeKey": "delivery-2"}])
    assert scene.counts(funnel) == [1, 1]


def test_rule09_the_entry_gives_the_cohort_and_combinations_are_compared(scene: Scene) -> None:
    for attempt, variant, plan, seats in [
        ("1", "a", "pro", 5),
        ("2", "a", "pro", 5),
        ("3", "a", "free", 5),
        ("4", "b", "pro", 1),
    ]:
        scene.story("0/A", attempt=attempt, variant=variant, plan=plan, seats=seats)
        scene.story("9/B", attempt=attempt, variant="later", plan="later", seats=0)
    report = scene.results(
        scene.attempts("A", "B", breakdownProperties=["variant", "plan", "seats"])
    )
    assert by_cohort(report, "variant", "plan", "seats") == {
        ("a", "pro", 5): 2,
        ("a", "free", 5): 1,
        ("b", "pro", 1): 1,
    }
    assert column(report["cohorts"]["data"], "cohort") == [
        {"variant": "a", "plan": "pro", "seats": 5},
        {"variant": "a", "plan": "free", "seats": 5},
        {"variant": "b", "plan": "pro", "seats": 1},
    ]
    assert column(report["cohorts"]["data"], "completed") == [2, 1, 1]


def test_rule10_a_missing_entry_value_stays_unknown(scene: Scene) -> None:
    funnel = scene.attempts("A", "B", breakdownProperties=["variant"])
    scene.story("0/A")
    scene.story("10/B", variant="a")
    for name, value in [("absent", None), ("object", {"variant": "a"}), ("array", ["a"])]:
        scene.story("0/A", attempt=name, variant=value)
    report = scene.results(funnel)
    (cohort,) = report["cohorts"]["data"]
    assert (cohort["cohort"], cohort["label"]) == ({"variant": None}, {"variant": "Unknown"})
    assert outcome(cohort) == (4, 1, 0, 3)
    assert report["dataQuality"]["unknownEntryValues"] == {"variant": 4}
    assert report["dataQuality"]["conflictingEntryValues"] == {"variant": 0}


def test_rule11_tied_entries_keep_what_they_agree_on(scene: Scene) -> None:
    funnel = scene.attempts("A", "B", breakdownProperties=["variant", "plan"])
    for attempt, story, variant in (
        ("tied", "0/A", "a"),
        ("tied", "0/A", "b"),
        ("ordered", "0/A(2)", "a"),
        ("ordered", "0/A(1)", "b"),
        ("half ordered", "0/A(1) 0/A", "a"),
    ):
        scene.story(story, attempt=attempt, variant=variant, plan="pro")
    report = scene.results(funnel)
    assert by_cohort(report, "variant", "plan") == {
        (None, "pro"): 1,
        ("b", "pro"): 1,
        ("a", "pro"): 1,
    }
    assert report["dataQuality"]["tiedEntries"] == 2
    assert report["dataQuality"]["unknownEntryValues"] == {"variant": 1, "plan": 0}


def test_rule11_a_value_that_only_one_of_the_tied_events_has_is_unknown(scene: Scene) -> None:
    scene.story("0/A", variant="a")
    scene.story("0/A")
    funnel = scene.attempts("A", "B", breakdownProperties=["variant"])
    assert by_cohort(scene.results(funnel), "variant") == {None: 1}


def test_rule12_an_attempt_stays_in_its_entry_cohort_and_conflicts_are_reported(
    scene: Scene,
) -> None:
    funnel = scene.attempts("A", "B", "C", breakdownProperties=["version"])
    scene.story("0/A", attempt="upgraded", version=1)
    scene.story("10/B 20/C", attempt="upgraded", version=2)
    scene.story("0/A", attempt="other type", version=1)
    scene.story("10/B", attempt="other type", version="1")
    scene.story("0/A 10/B", attempt="same", version=1)
    scene.story("0/A", attempt="later without", version=1)
    scene.story("10/B", attempt="later without")
    report = scene.results(funnel)
    assert by_cohort(report, "version") == {1: 4}
    assert outcome(report["cohorts"]["data"][0]) == (4, 1, 0, 3)
    assert report["dataQuality"]["conflictingEntryValues"] == {"version": 2}


LATER_EVENTS = {
    "step 1 again": ("20/A", 1),
    "a step that is not next": ("20/C", 1),
    "a sequence skip": ("20/B(0)", 1),
    "an unordered tie": ("1/B(2) 1/C", 1),
    "a tie with the entry": ("0/B", 0),
    "after completion": ("10/B(3) 20/C(4)", 1),
    "the window's last millisecond": ("3600/B", 1),
    "after the window": ("3600.001/B", 0),
    "no required step": ("20/D 30/E", 0),
}


def test_rule12_events_that_are_not_accepted_can_conflict_for_an_attempt(
    scene: Scene, subtests: pytest.Subtests
) -> None:
    for attempt, (story, _) in LATER_EVENTS.items():
        scene.story("0/A(1)", attempt=attempt, version=1)
        if story.startswith("10/B"):
            scene.story("1/B(2) 2/C(3)", attempt=attempt, version=1)
        scene.story(story, attempt=attempt, version=2)
    funnel = scene.attempts(
        "A", "B", "C", step("D", diagnostic=True), breakdownProperties=["version"]
    )
    units, listed = scene.units(funnel), scene.units(funnel, quality="conflict")
    for attempt, (_, conflicting) in LATER_EVENTS.items():
        with subtests.test(attempt):
            assert bool(units[attempt]["conflictingEntryValues"]) == bool(conflicting)
            assert (attempt in listed) == bool(conflicting)
            trace = scene.trace(funnel, attempt)
            assert bool(trace["conflicts"]) == bool(conflicting)
    total = sum(conflicting for _, conflicting in LATER_EVENTS.values())
    quality = scene.results(funnel)["dataQuality"]
    assert quality["conflictingEntryValues"] == {"version": total}


def test_rule12_only_accepted_events_can_conflict_for_a_visitor(scene: Scene) -> None:
    funnel = scene.funnel("A", "B", "C", breakdownProperties=["version"])
    scene.story("0/A", version=1)
    scene.story("10/C", version=2)
    quality = scene.results(funnel)["dataQuality"]
    assert quality["conflictingEntryValues"] == {"version": 0}
    scene.story("20/B", version=2)
    quality = scene.results(funnel)["dataQuality"]
    assert quality["conflictingEntryValues"] == {"version": 1}


@cases(
    ("window", "end"),
    [
        ({"value": 1, "unit": "minute"}, 60),
        pytest.param({"value": 36, "unit": "hour"}, 129_600, marks=MORE_WINDOWS),
        pytest.param({"value": 45, "unit": "day"}, 3_888_000, marks=MORE_WINDOWS),
    ],
)
def test_a_window_of_any_length_includes_its_last_millisecond(
    scene: Scene, window: dict[str, Any], end: int
) -> None:
    first = f"A{end}"
    attempts = scene.attempts(first, "B", conversionWindow=window)
    visitors = scene.funnel(first, "B", conversionWindow=window)
    for name, last in ((f"inside {end}", f"{end}/B"), (f"outside {end}", f"{end}.001/B")):
        scene.story(f"0/{first} {last}", visitor=name, attempt=name)
    for funnel in (attempts, visitors):
        assert outcome(scene.results(funnel)["aggregate"]) == (2, 1, 0, 1)
    trace = scene.trace(attempts, f"inside {end}")
    assert trace["windowEndsAt"] == scene.at(end)


def test_rule13_the_period_selects_by_entry_and_completion_may_come_later(scene: Scene) -> None:
    funnel = scene.attempts("A", "B")
    scene.story("99/A 101/B", attempt="before")
    scene.story("100/A 300/B", attempt="at the start")
    scene.story("199.999/A 3700/B", attempt="just inside")
    scene.story("200/A 201/B", attempt="at the end")
    report = scene.results(funnel, **scene.period(100, 200))
    assert outcome(report["aggregate"]) == (2, 2, 0, 0)
    assert report["period"] == scene.period(100, 200)
    assert outcome(scene.results(funnel)["aggregate"]) == (4, 4, 0, 0)


def test_rule13_an_attempt_that_entered_before_is_not_selected_again(scene: Scene) -> None:
    scene.story("50/A 150/A 160/B")
    assert scene.counts(scene.attempts("A", "B"), **scene.period(100, 200)) == [0, 0]


def test_rule14_a_unit_drops_off_when_its_window_closes(today: Scene, clock: ShiftedClock) -> None:
    funnel = today.attempts("A", "B", "C")
    today.story("0/A", attempt="one")
    today.story("0/A 10/B", attempt="two")
    today.story("0/A 10/B 20/C", attempt="three")
    for open_windows, pending, dropped_off in ((2, [1, 1, 0], [0] * 3), (0, [0] * 3, [1, 1, 0])):
        report = today.results(funnel)
        assert outcome(report["aggregate"]) == (3, 1, sum(pending), sum(dropped_off))
        assert column(report["aggregate"]["steps"], "pending") == pending
        assert column(report["aggregate"]["steps"], "droppedOff") == dropped_off
        assert report["coverage"]["openWindows"] == open_windows
        clock.advance(seconds=HOUR_S)


def test_rule15_a_rate_without_denominator_shows_no_data(scene: Scene) -> None:
    funnel = scene.attempts("A", "B", "C")
    assert column(scene.results(funnel)["aggregate"]["steps"], "conversionFromStart") == [None] * 3
    scene.story("0/A")
    total = scene.results(funnel)["aggregate"]
    assert total["conversionRate"] == 0
    assert column(total["steps"], "conversionFromStart") == [1, 0, 0]
    assert column(total["steps"], "conversionFromPrevious") == [None, 0, None]


def test_rule16_coverage_shows_the_history_that_the_report_is_based_on(scene: Scene) -> None:
    funnel = scene.attempts("A", "B")
    scene.story("100/A 200/B")
    scene.send_event(900, "unrelated")
    coverage = scene.results(funnel)["coverage"]
    assert pick(coverage, "firstEventAt", "lastEventAt") == (scene.at(100), scene.at(900))
    assert pick(coverage, "complete", "gaps") == (True, [])
    early = scene.results(funnel, **scene.period(0, 500))["coverage"]
    assert pick(early, "periodBeginsBeforeHistory", "complete") == (True, False)
    later = scene.results(funnel, **scene.period(150, 500))["coverage"]
    assert later["periodBeginsBeforeHistory"] is False


@pytest.mark.parametrize(
    ("start_s", "end_s", "touched"), [(0, 50, True), (500, 600, False)], ids=["inside", "outside"]
)
def test_rule16_coverage_lists_partial_imports_into_the_span(
    scene: Scene, start_s: int, end_s: int, touched: bool
) -> None:
    funnel = scene.attempts("A", "B", conversionWindowSeconds=HOUR_S)
    seconds = (10,) if touched else (5000, 5010)
    lines = [scene.item(second, "A", attempt="a1") for second in seconds]
    scene.send_event(0, "first")
    rejected = lines[0] | {"name": ""}
    body = "\n".join(json.dumps(line) for line in (*lines, rejected))
    started = scene.client.post(
        "/api/imports", params={"websiteId": scene.tenant.website_id}, content=body, headers=NDJSON
    )
    job = finished(scene.client, started.json()["id"])
    coverage = scene.results(funnel, **scene.period(start_s, end_s))["coverage"]
    gaps = [pick(gap, "kind", "from", "to", "state") for gap in coverage["gaps"]]
    gap = ("import", job["firstEventAt"], job["lastEventAt"], "done")
    assert gaps == ([gap] if touched else [])


def test_rule17_reports_attribute_no_revenue(scene: Scene) -> None:
    funnel = scene.attempts("A", {"type": "Transaction", "value": "purchase"})
    scene.story("0/A")
    sale = {
        "websiteId": scene.tenant.website_id,
        "visitorId": "ann",
        "event": "purchase",
        "timestamp": scene.at(9),
        "transactionId": "t1",
        "amount": 1234.5,
        "currency": "EUR",
        "properties": {"attempt": "a1"},
    }
    assert scene.client.post("/api/v1/transactions", json=sale).status_code == 202
    report = scene.results(funnel)
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    text = json.dumps(report).lower()
    assert not any(word in text for word in ("1234", "eur", "revenue", "amount", "currency"))


def diagnostics(report: Json) -> list[tuple[Any, ...]]:
    """The gap, units and events of each diagnostic row."""
    rows = report["aggregate"]["diagnostics"]
    return [pick(row, "where", "units", "events") for row in rows]


def test_a_diagnostic_row_above_step_1_looks_one_window_back_from_the_entry(scene: Scene) -> None:
    scene.story("9/seen 10/seen 3610/A 3611/seen 3620/B", attempt="a1")
    scene.story("3610/A", attempt="a2")
    scene.story("10/seen", attempt="never entered")
    seen = step("seen", diagnostic=True)
    funnel = scene.attempts(seen, "A", seen, "B", seen)
    assert scene.counts(funnel) == [2, 1]
    assert diagnostics(scene.results(funnel)) == [
        ("before step 1", 1, 1),
        ("between steps 1 and 2", 1, 1),
        ("after step 2", 0, 0),
    ]
    trace = scene.trace(funnel, "a1")
    assert [pick(event, "decision", "diagnosticRows") for event in trace["events"]] == [
        ("noMatch", []),
        ("diagnostic", [0]),
        ("entry", []),
        ("diagnostic", [2]),
        ("accepted", []),
    ]
    assert scene.names(funnel, diagnostic=0) == ["a1"]


def test_a_diagnostic_row_above_step_1_without_a_window_looks_from_the_first_event(
    scene: Scene,
) -> None:
    scene.story(f"0/seen {9 * DAY_S}/A {9 * DAY_S}/seen", attempt=None)
    funnel = scene.funnel(step("seen", diagnostic=True), "A", "B")
    assert diagnostics(scene.results(funnel)) == [("before step 1", 1, 2)]


def test_a_diagnostic_group_counts_units_with_every_part(scene: Scene) -> None:
    scene.story("0/A 1/p 2/q 3/p 4/B", attempt="both")
    scene.story("0/A 1/p 4/B", attempt="one part")
    scene.story("0/A 1/p 4/B 5/q", attempt="a part too late")
    group = step("p", "q", mode="all_of", diagnostic=True)
    funnel = scene.attempts("A", step("p", diagnostic=True), group, "B")
    assert scene.counts(funnel) == [3, 3]
    between = "between steps 1 and 2"
    assert diagnostics(scene.results(funnel)) == [(between, 3, 4), (between, 1, 5)]
    assert scene.names(funnel, diagnostic=2) == ["both"]
    assert scene.definition(funnel)["steps"][2]["mode"] == "all_of"


class ProviderEvent(NamedTuple):
    """An event of a payment provider. verified: whether its link to the visitor is proven."""

    name: str
    visitor: str
    verified: bool
    properties: Json
    seconds: float = 9


def store_provider_events(
    scene: Scene, warehouse: Warehouse, events: Iterable[ProviderEvent]
) -> None:
    """Store events with IDs that consist of their attempt and name."""
    website_id = scene.tenant.website_id
    [[scope]] = warehouse.query(
        "SELECT any(scope_id) FROM events WHERE website_id = {w:String}", {"w": website_id}
    )[1]
    history = [
        reference.Event(
            f"{event.properties.get('attempt')}-{event.name}",
            website_id,
            "event",
            event.name,
            scene.start_ms + round(event.seconds * 1000),
            event.visitor,
            scope,
            source="provider",
            verified=event.verified,
            properties=event.properties,
        )
        for event in events
    ]
    store(warehouse, reference.History(tuple(history)))


def test_rule18_provider_events_need_the_attempt_id_and_a_verified_link(
    scene: Scene, warehouse: Warehouse
) -> None:
    funnel = scene.attempts("A", "paid")
    for attempt in ("verified", "unverified", "another visitor", "customer alone"):
        scene.story("0/A", attempt=attempt, customer="c1")
    assert scene.counts(funnel) == [4, 0]
    paid = [
        ProviderEvent("paid", "ann", True, {"attempt": "verified"}),
        ProviderEvent("paid", "ann", False, {"attempt": "unverified"}),
        ProviderEvent("paid", "bob", True, {"attempt": "another visitor"}),
        ProviderEvent("paid", "ann", True, {"customer": "c1"}),
    ]
    store_provider_events(scene, warehouse, paid)
    report = scene.results(funnel)
    assert counts(report) == [4, 1]
    assert report["dataQuality"]["unverifiedProviderEvents"] == 2
    assert report["dataQuality"]["eventsWithoutAttemptId"] == 1


def test_nothing_else_is_counted_beside_a_payment_of_a_visitor_without_any_step(
    scene: Scene, warehouse: Warehouse
) -> None:
    scene.identify("user", "ann", "ann's phone", traits={"plan": "pro"})
    scene.story("0/A 60/B", visitor="ann")
    store_provider_events(scene, warehouse, [ProviderEvent("paid", "bob", True, {})])
    pro = {"property": "$trait.plan", "operator": "equals", "value": "pro"}
    funnel = scene.funnel(
        step("A", filters=[pro]), step("B", strict="all"), breakdownProperties=["plan"]
    )
    assert scene.counts(funnel) == [1, 1]


def test_rule18_an_attempt_with_only_provider_events_counts_the_verified_ones(
    scene: Scene, warehouse: Warehouse
) -> None:
    funnel = scene.attempts("invoice", "paid")
    scene.story("0/other", attempt="elsewhere", visitor="bob")
    assert scene.counts(funnel) == [0, 0]
    attempts = {
        "both verified": [("ann", True), ("ann", True)],
        "two visitors": [("ann", True), ("eve", True)],
        "one verified": [("ann", True), ("ann", False)],
        "none verified": [("ann", False), ("ann", False)],
        "elsewhere": [("ann", True), ("bob", True)],
    }
    store_provider_events(
        scene,
        warehouse,
        (
            ProviderEvent(name, *link, {"attempt": attempt}, index)
            for attempt, links in attempts.items()
            for index, (name, link) in enumerate(zip(("invoice", "paid"), links, strict=True))
        ),
    )
    report = scene.results(funnel)
    assert counts(report) == [3, 2]
    assert report["dataQuality"]["unverifiedProviderEvents"] == 4
    assert report["dataQuality"]["attemptsWithSeveralVisitors"] == 1
    trace = scene.trace(funnel, "one verified")
    assert column(trace["events"], "decision") == ["entry", "unverifiedProvider"]
    assert "no verified link" in trace["events"][1]["explanation"]
    trace = scene.trace(funnel, "elsewhere")
    left_out = [event for event in trace["events"] if event["decision"] == "unverifiedProvider"]
    assert column(left_out, "eventId") == ["elsewhere-invoice"]
    assert "none of the attempt's other events" in left_out[0]["explanation"]


def test_rule18_next_events_leave_out_provider_events_that_do_not_count(
    scene: Scene, warehouse: Warehouse
) -> None:
    funnel = scene.attempts("A", "paid")
    scene.story("0/A", visitor="ann", attempt="one")
    scene.story("20/help", visitor="bob", attempt=None)
    assert scene.counts(funnel) == [1, 0]
    links = {
        "paid": ("bob", True),  # It matches step 2, but has a different visitor than the attempt.
        "invoice": ("bob", True),
        "reminder": ("ann", False),
        "refund": ("ann", True),
    }
    events = [ProviderEvent(name, *link, {"attempt": "one"}) for name, link in links.items()]
    store_provider_events(scene, warehouse, events)

    def names(**query: Any) -> list[str]:
        return column(scene.report(funnel, "next", step=1, **query)["data"], "name")

    assert names() == ["refund"]
    assert "help" not in names(of="visitor")


def test_rule19_funnels_count_visitors_by_default(scene: Scene) -> None:
    funnel = scene.funnel("A", "B")
    scene.story("0/A 10/B", visitor="ann", attempt="one")
    scene.story("20/A 30/B", visitor="ann", attempt="two")
    scene.story("0/A", visitor="bob", attempt=None)
    report = scene.results(funnel)
    assert report["countingUnit"] == "visitor"
    assert outcome(report["aggregate"]) == (2, 1, 1, 0)
    assert report["dataQuality"]["eventsWithoutAttemptId"] == 0


def test_rule20_each_group_has_its_pending_and_its_median(today: Scene) -> None:
    funnel = today.attempts("A", "B", breakdownProperties=["variant"])
    for attempt, seconds in [("1", 10), ("2", 20), ("3", 50)]:
        today.story(f"0/A {seconds}/B", attempt=attempt, variant="odd")
    for attempt, seconds in [("4", 30), ("5", 45)]:
        today.story(f"0/A {seconds}/B", attempt=attempt, variant="even")
    today.story("0/A", attempt="6", variant="none")
    report = today.results(funnel)
    cohorts = {row["cohort"]["variant"]: row for row in report["cohorts"]["data"]}
    assert {name: row["medianCompletionMinutes"] for name, row in cohorts.items()} == {
        "odd": pytest.approx(20 / 60),
        "even": pytest.approx(37.5 / 60),
        "none": None,
    }
    pending = {name: row["steps"][0]["pending"] for name, row in cohorts.items()}
    assert pending == {"odd": 0, "even": 0, "none": 1}
    assert report["aggregate"]["medianCompletionMinutes"] == pytest.approx(0.5)


SORTED_COHORTS: list[tuple[str, list[str], list[str]]] = [
    # figure, cohorts by descending and by ascending figure
    ("entered", ["x", "y", "z"], ["z", "y", "x"]),
    ("conversionRate", ["y", "x", "z"], ["z", "x", "y"]),
    ("medianCompletionMinutes", ["x", "y", "z"], ["y", "x", "z"]),  # z has none and comes last.
    ("droppedOff", ["x", "z", "y"], ["y", "z", "x"]),
]


def test_cohorts_are_sorted_by_any_figure_and_paged_in_that_order(
    scene: Scene, subtests: pytest.Subtests
) -> None:
    stories = {"x": ["0/A 50/B", "0/A", "0/A", "0/A"], "y": ["0/A 20/B", "0/A 20/B"], "z": ["0/A"]}
    for variant, own_stories in stories.items():
        for number, story in enumerate(own_stories):
            scene.story(story, attempt=f"{variant}{number}", variant=variant)
    funnel = scene.attempts("A", "B", breakdownProperties=["variant"])

    def page(number: int, **query: Any) -> list[str]:
        report = scene.results(funnel, page=number, **query)
        return [row["cohort"]["variant"] for row in report["cohorts"]["data"]]

    for sort, *orders in SORTED_COHORTS:
        for order, expected in zip(("desc", "asc"), orders, strict=True):
            with subtests.test(sort, order=order):
                assert page(1, sort=sort, order=order) == expected
    sort, expected, _ = SORTED_COHORTS[0]
    pages = [page(number, sort=sort, order="desc", pageSize=2) for number in (1, 2)]
    assert pages == [expected[:2], expected[2:]]


SEARCHED_COHORTS: list[tuple[str, list[Any]]] = [
    ("PRO", ["Pro 2", "pro 1"]),
    ("ü", ["Grün"]),
    ("unknown", [None]),
    ("7", ["17", 7]),
    ("true", [True]),
    ("%", []),
    ("sPro", []),  # not the tag of its type
]


def test_a_search_lists_cohorts_with_the_text_in_a_value_and_keeps_all_other_numbers(
    scene: Scene, subtests: pytest.Subtests
) -> None:
    for number, plan in enumerate(["pro 1", "Pro 2", "Grün", None, 7, "17", True]):
        values = {} if plan is None else {"plan": plan}
        scene.story("0/A", attempt=f"a{number}", country="DE", **values)
    funnel = scene.attempts("A", "B", breakdownProperties=["country", "plan"])
    everything = scene.results(funnel)
    for search, expected in SEARCHED_COHORTS:
        with subtests.test(search):
            report = scene.results(funnel, search=search)
            plans = [row["cohort"]["plan"] for row in report["cohorts"]["data"]]
            assert sorted(plans, key=str) == expected
            assert report["cohorts"]["total"] == len(expected)
            assert report["aggregate"] == everything["aggregate"]
            assert report["dataQuality"] == everything["dataQuality"]
    assert scene.results(funnel, search="de", pageSize=2)["cohorts"]["total"] == 7


def test_rule21_a_saved_change_recalculates_retained_history(scene: Scene) -> None:
    funnel = scene.attempts("A", "B")
    scene.story("0/A 10/C")
    before = scene.results(funnel)
    assert (before["definitionRevision"], outcome(before["aggregate"])) == (1, (1, 0, 0, 1))
    changed = scene.definition(funnel) | {"steps": rows_of("AC")}
    assert scene.client.put(f"/api/funnels/{funnel}", json=changed).status_code == 200
    after = scene.results(funnel)
    assert (after["definitionRevision"], outcome(after["aggregate"])) == (2, (1, 1, 0, 0))
    assert outcome(scene.results(funnel, revision=1)["aggregate"]) == (1, 0, 0, 1)


def test_rule21_a_changed_goal_recalculates_retained_history_and_results_name_its_revision(
    scene: Scene,
) -> None:
    client = scene.client
    goals = {
        name: scene.goal(name, step(value))
        for name, value in (("Paid", "B"), ("Ended", "D"), ("Other", "B"))
    }
    used = [{"name": name, "id": goals[name]["id"], "revision": 1} for name in ("Ended", "Paid")]
    steps = [step("A"), {"type": "Goal", "value": "Paid"}]
    ended = {"type": "Goal", "value": "Ended"}
    funnel = scene.attempts(*steps, {**step("D", diagnostic=True), "or": [ended]})
    scene.story("0/A 10/C")
    before = scene.results(funnel)
    assert (before["goals"], outcome(before["aggregate"])) == (used, (1, 0, 0, 1))

    path = f"/api/goals/{goals['Paid']['id']}"
    assert client.patch(path, json={"match": step("C")}).json()["revision"] == 2
    paid = {**used[1], "revision": 2}
    after = scene.results(funnel)
    assert (after["goals"], outcome(after["aggregate"])) == ([used[0], paid], (1, 1, 0, 0))
    assert after["definitionRevision"] == before["definitionRevision"] == 1, (
        "the definition is the same"
    )

    draft = {"countingUnit": "attempt", "attemptProperty": "attempt", "steps": steps}
    previewed = client.post("/api/funnels/preview", json=draft).json()
    assert (previewed["goals"], outcome(previewed["aggregate"])) == ([paid], (1, 1, 0, 0))


def test_rule22_variants_assigned_before_the_journey_compare_end_to_end(scene: Scene) -> None:
    funnel = scene.attempts("opened", "paywall", "paid", breakdownProperties=["paywall"])
    seen, paid = "0/opened 10/paywall", "0/opened 10/paywall 20/paid"
    stories = {"short": [paid, paid, paid, "0/opened"], "long": [paid, seen, seen, seen]}
    for paywall, own_stories in stories.items():
        for index, story in enumerate(own_stories):
            scene.story(story, attempt=f"{paywall}{index}", paywall=paywall)
    rates = {
        row["cohort"]["paywall"]: row["conversionRate"]
        for row in scene.results(funnel)["cohorts"]["data"]
    }
    assert rates == {"short": 0.75, "long": 0.25}


def test_a_preview_counts_as_the_saved_funnel_and_saves_nothing(scene: Scene) -> None:
    funnel = scene.attempts("A", "B", breakdownProperties=["variant"])
    scene.story("0/A 10/B", variant="x")
    scene.story("500/A", attempt="a2", variant="y")
    query = {**scene.period(0, 400), "pageSize": 5, "cohort": {"variant": "x"}}
    draft = {**scene.definition(funnel), **query}
    answer = scene.client.post("/api/funnels/preview", json=draft)
    assert answer.status_code == 200, answer.text
    expected = scene.results(funnel, **query)
    assert expected["aggregate"]["completed"] == 1
    own = {
        "funnelId": None,
        "definitionRevision": None,
        **{at: answer.json()[at] for at in ("evaluatedAt", "computedAt", "servedFrom")},
    }
    assert answer.json() == {**expected, **own}
    assert scene.client.get("/api/funnels").json()["total"] == 1


def test_a_whole_report(scene: Scene) -> None:
    """Check every field of a report."""
    failed, group = step("failed", diagnostic=True), step("B", "C", mode="all_of")
    funnel = scene.attempts(step("A", "a"), failed, group, "D", breakdownProperties=["variant"])
    scene.story("0/A(1) 5/failed 6/failed 10/C(2) 20/B(3) 80/D(4)", attempt="done", variant="x")
    scene.story("0/a 7/failed 10/B", attempt="lost", variant="x")
    scene.story("30/a(9) 40/B(8) 41/B(10) 42/C(11)", attempt="skipped")
    report = scene.results(funnel, pageSize=1)
    assert report["evaluatedAt"] > scene.at(90 * DAY_S)
    diagnostic = {
        "row": 1,
        "afterStep": 1,
        "where": "between steps 1 and 2",
        "type": "Event",
        "value": "failed",
        "units": 2,
        "events": 3,
    }
    assert report == {
        "funnelId": funnel,
        "definitionRevision": 1,
        "goals": [],
        "countingUnit": "attempt",
        "evaluatedAt": report["evaluatedAt"],
        "computedAt": report["computedAt"],
        "servedFrom": "query",
        "directReason": None,
        "receipt": None,
        "lastKnownEventAt": report["coverage"]["lastEventAt"],
        "period": {"startAt": None, "endAt": None},
        "websiteId": None,
        "asked": None,
        "audience": None,
        "impossibleSteps": [],
        "aggregate": {
            "entered": 3,
            "completed": 1,
            "pending": 0,
            "droppedOff": 2,
            "excluded": 0,
            "conversionRate": 0.3333,
            "settled": 3,
            "settledRate": 0.3333,
            "earlyCompletions": 0,
            "finalRate": None,
            "medianCompletionMinutes": pytest.approx(80 / 60),
            "steps": [
                settled_step(1, 0, "A", (3, 1), (1.0, None), options=(1, 2)),
                settled_step(2, 2, "B", (2, 1), (0.6667, 0.6667), options=(2, 2)),
                settled_step(3, 3, "D", (1, 0), (0.3333, 0.5), options=(1,)),
            ],
            "diagnostics": [diagnostic],
        },
        "cohorts": {
            "page": 1,
            "pageSize": 1,
            "total": 2,
            "data": [
                {
                    "cohort": {"variant": "x"},
                    "label": {"variant": "x"},
                    "entered": 2,
                    "completed": 1,
                    "pending": 0,
                    "droppedOff": 1,
                    "excluded": 0,
                    "conversionRate": 0.5,
                    "settled": 2,
                    "settledRate": 0.5,
                    "earlyCompletions": 0,
                    "finalRate": None,
                    "medianCompletionMinutes": pytest.approx(80 / 60),
                    "steps": [
                        settled_step(1, 0, "A", (2, 1), (1.0, None), options=(1, 1)),
                        settled_step(2, 2, "B", (1, 0), (0.5, 0.5), options=(1, 1)),
                        settled_step(3, 3, "D", (1, 0), (0.5, 1.0), options=(1,)),
                    ],
                    "diagnostics": [diagnostic],
                }
            ],
        },
        "dataQuality": {
            "eventsWithoutAttemptId": 0,
            "invalidSequenceValues": 0,
            "sequenceSkips": 1,
            "unorderedTies": 0,
            "unitsWithOrderingIssues": 1,
            "assumedOrder": 0,
            "tiedEntries": 0,
            "unknownEntryValues": {"variant": 1},
            "conflictingEntryValues": {"variant": 0},
            "unverifiedProviderEvents": 0,
            "coarseTimes": 0,
            "attemptsWithSeveralVisitors": 0,
            "unitsOverLimit": 0,
            "lostOnDevices": 0,
        },
        "coverage": {
            "complete": True,
            "firstEventAt": scene.at(0),
            "lastEventAt": scene.at(80),
            "periodBeginsBeforeHistory": False,
            "openWindows": 0,
            "gaps": [],
            "notes": [],
            "noteCodes": [],
        },
    }


def settled_step(
    number: int,
    row: int,
    value: str,
    counts: tuple[int, int],
    rates: tuple[float, float | None],
    options: tuple[int, ...],
) -> Json:
    """The figures of a step of units that are all settled.

    counts: units that reached it, and that dropped off there. rates: from the start and from the
    step before. options: the units of each option.
    """
    (count, dropped_off), (from_start, from_previous) = counts, rates
    return {
        "step": number,
        "row": row,
        "type": "Event",
        "value": value,
        "count": count,
        "settled": count,
        "pending": 0,
        "droppedOff": dropped_off,
        "excluded": 0,
        "conversionFromStart": from_start,
        "conversionFromPrevious": from_previous,
        "settledFromStart": from_start,
        "settledFromPrevious": from_previous,
        "options": [{"option": index, "count": units} for index, units in enumerate(options)],
    }
