"""Counting like other tools (`countLike`), over the API. Source: docs/other-tools.md."""

from random import Random
from typing import Any

import pytest

from penstock.base.chunks import chunks
from penstock.warehouse.client import Warehouse
from tests.funnels.answers import faults
from tests.funnels.scenario import HOUR_S, Json, Scene, pick, step
from tests.funnels.test_rules import ProviderEvent, store_provider_events

pytestmark = pytest.mark.usefixtures("warehouse")

WF, PH, MP, AM = "windowfunnel", "posthog", "mixpanel", "amplitude"
MS = f"{AM}:millisecond"
AB: list[str | Json] = ["A", "B"]
ABC: list[str | Json] = ["A", "B", "C"]
AXB: list[str | Json] = ["A", step("X", exclude=True), "B"]
STRICT_B = step("B", strict=True)
PERIOD = "period"


STORIES: list[tuple[str, list[str | Json], str, Json, Json]] = [
    # number, rows, story, more of the definition, steps reached by tool and mode
    ("1", AB, "0/A 0/B", {}, {PH: 2, MP: 2, AM: 2, WF: 2, f"{WF}:strict_increase": 1}),
    ("2", AB, "0/B 0.03/A", {}, {PH: 1, MP: 2, AM: 2, MS: 1, WF: 1, f"{WF}:seconds": 2}),
    ("2 in order", AB, "0/A 0.03/B", {}, {WF: 2, f"{WF}:seconds,strict_increase": 1}),
    (
        "14 twice",
        AB,
        "0/A 5/F 10/B",
        {},
        {f"{WF}:strict_order,strict_deduplication": 1, f"{WF}:strict_deduplication": 2},
    ),
    ("3", AB, "0.2/B 1.7/A", {}, {PH: 1, MP: 2, AM: 1, WF: 1}),
    (
        "4",
        AB,
        "0/A 1800/A 3700/B",
        {},
        {PH: 2, MP: 1, f"{MP}:optimized": 2, AM: 2, WF: 2},
    ),
    ("5", AB, "0/A 3700/A 3800/B", {}, {PH: 2, MP: 1, AM: 2, WF: 2}),
    ("6", AB, "900/A 1100/B", {PERIOD: (0, 1000)}, {PH: 1, MP: 2, AM: 2, WF: 1}),
    ("7", AB, "0.1/A 3600.9/B", {}, {PH: 1, MP: 1, AM: 2, MS: 1, WF: 1, f"{WF}:seconds": 2}),
    ("8", ["A", step("A", "B")], "0/A", {}, {PH: 1, AM: 1, WF: 2, f"{WF}:strict_once": 1}),
    ("9", ["A", "A"], "0/A 0/A", {}, {PH: 2, AM: 1, WF: 2, f"{WF}:strict_increase": 1}),
    ("10", AXB, "0/A 10/X 20/B", {}, {PH: 0, MP: 1}),
    ("11", AXB, "0/A 10/X 20/A 30/B", {}, {PH: 2, MP: 1}),
    ("12", AXB, "0/A 10/X 10/B", {}, {PH: 2}),
    ("13", AXB, "0/A 10/X 20/B 3700/A", {}, {PH: 0, MP: 1}),
    ("14", AB, "0/A 5/F 10/B", {}, {f"{WF}:strict_order": 1}),
    ("14 strict", ["A", STRICT_B], "0/A 5/F 10/B", {}, {PH: 1, AM: 1}),
    ("14 strict, same second", ["A", STRICT_B], "0.1/A 0.5/F 0.9/B", {}, {PH: 1, AM: 2, MS: 1}),
    ("15", ABC, "0/A 5/B 10/A 15/C", {}, {f"{WF}:strict_order": 3}),
    ("15 strict", ["A", STRICT_B, "C"], "0/A 5/B 10/A 15/C", {}, {PH: 2, AM: 2}),
    ("16", AB, "0/B 10/A", {"order": "any"}, {PH: 2, AM: 2}),
    ("17", AB, "0/B", {"order": "any"}, {PH: 1, AM: 0}),
    ("18", ABC, "0/A 1500/B 3000/C", {"minutes": 30}, {PH: 2, MP: 2, AM: 2, WF: 2}),
    ("19", ABC, "0/B 10/C", {}, {PH: 0, MP: 0, AM: 0, WF: 0}),
    ("20", AB, "0/A 3700/A 3800/B", {"attempts": ["a1"]}, {PH: 2, MP: 1, AM: 2, WF: 2}),
    ("21", AB, "0/A 10/B", {"attempts": ["a1", "a2"]}, {PH: 1, MP: 1, AM: 1, WF: 1}),
    ("21 by visitor", AB, "0/A 10/B", {}, {PH: 2, MP: 2, AM: 2, WF: 2}),
    ("22", AB, "0/A(2) 10/B(1)", {"numbers": True}, {PH: 2, MP: 2, AM: 2, WF: 2}),
    ("26", AB, "0/A 200/A 300/B", {PERIOD: (100, 9000)}, {PH: 2, MP: 2, AM: 2, WF: 2}),
    (
        "26 by ID",
        AB,
        "0/A 200/A 300/B",
        {PERIOD: (100, 9000), "attempts": ["a1"]},
        {PH: 2, MP: 2, AM: 2, WF: 2},
    ),
    (
        "27",
        AB,
        "10/A 20/A 20/B",
        {},
        {PH: 2, MP: 2, AM: 2, WF: 2, f"{WF}:strict_increase,strict_once": 2},
    ),
]
"""The stories of the rules, whose numbers they have."""


def compare(scene: Scene, funnel: str, tool: str, **query: Any) -> Json:
    """Count like a tool. tool: its name, and after a colon its modes."""
    name, _, mode = tool.partition(":")
    modes = {"mode": mode} if mode else {}
    record: Json = scene.results(funnel, countLike=name, **modes, **query)["countLike"]
    check_sums(record)
    return record


def check_sums(record: Json) -> None:
    """The parts of a comparison add up."""
    only_there, only_here = pick(record, "onlyThere", "onlyHere")
    assert record["completedHere"] + only_there - only_here == record["completed"]
    assert sum(reason["onlyThere"] for reason in record["reasons"]) == only_there
    assert sum(reason["onlyHere"] for reason in record["reasons"]) == only_here


def reached(scene: Scene, rows: list[str | Json], tool: str, definition: Json, query: Json) -> int:
    """Return the furthest step that a unit reaches by the rules of a tool."""
    for k in range(len(rows), 1, -1):
        steps = [row for row in rows[:k] if not (isinstance(row, dict) and "exclude" in row)]
        if len(steps) < 2 or rows[k - 1] == AXB[1]:
            continue
        record = compare(scene, scene.funnel(*rows[:k], **definition), tool, **query)
        if record["completed"]:
            return len(steps)
    entered: int = record["entered"]
    return entered


@pytest.mark.parametrize(
    ("number", "rows", "story", "more", "expected"), STORIES, ids=[story[0] for story in STORIES]
)
def test_story(
    scene: Scene, number: str, rows: list[str | Json], story: str, more: Json, expected: Json
) -> None:
    scene.start_ms -= scene.start_ms % 1000
    events = story.split()
    attempts = more.get("attempts", [None])
    for at, event in enumerate(events):
        scene.story(event, attempt=attempts[at % len(attempts)])
    window = {"value": more.get("minutes", 60), "unit": "minute"}
    definition: Json = {"conversionWindow": window}
    if "attempts" in more:
        definition |= {"countingUnit": "attempt", "attemptProperty": "attempt"}
    if "numbers" in more:
        definition["sequenceProperty"] = "n"
    if "order" in more:
        definition["order"] = more["order"]
    query = scene.period(*more[PERIOD]) if PERIOD in more else {}
    steps = {tool: reached(scene, rows, tool, definition, query) for tool in expected}
    assert steps == expected


def test_reasons_and_the_sentences_that_explain_the_difference(scene: Scene) -> None:
    for visitor, story in {
        "plain": "0/A 10/B",
        "tied": "5/A 5/B",
        "tied too": "6/B 6/A",
        "late": "990/A 1100/B",
        "tied and late": "995/A 995/B 1200/B",
        "lost": "7/A",
    }.items():
        scene.story(story, visitor=visitor, attempt=None)
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    record = compare(scene, funnel, PH, **scene.period(0, 1000), shown=6)
    assert pick(record, "tool", "rules", "entered", "completed", "enteredHere") == (
        PH,
        "2026-11",
        6,
        4,
        6,
    )
    assert pick(record, "onlyThere", "onlyHere", "sameUnits") == (2, 1, 3)
    assert [pick(each, "rules", "onlyThere", "onlyHere") for each in record["reasons"]] == [
        (["ties"], 2, 0),
        (["afterEnd"], 0, 1),
    ]
    assert record["shown"] == {"shown": 6, "byRules": 4, "unexplained": 2}
    first, there, here, shown = record["sentences"]
    assert first == "By PostHog's rules (November 2026) 4 of 6 visitors completed, here 3."
    assert there == "2 count only there: equal times count in the order of the steps."
    assert here.startswith("1 counts only here: it completed after ")
    assert shown.startswith("6 = 4 by rules + 2 that rules do not explain")
    assert [each["setting"] for each in record["settings"]] == ["window", "timezone"]


def test_each_reason_is_the_smallest_set_of_rules(scene: Scene) -> None:
    for attempt, story in {
        "tie": "10/A 10/B",
        "number": "10/A(2) 20/B(1)",
        "entry": "0/A 3700/A 3800/B",
        "entry and number": "0/A(5) 3700/A(4) 3800/B(3)",
        "tie and number": "10/A(2) 10/B(2)",
        "entry or tie": "0/A 0/B 3700/A 3800/B",
        "all": "0/A 3700/A(2) 3700/B(1)",
    }.items():
        scene.story(story, visitor=attempt, attempt=attempt)
    record = compare(scene, scene.attempts("A", "B"), PH)
    assert {each["reason"]: each["onlyThere"] for each in record["reasons"]} == {
        "ties": 1,
        "numbers": 1,
        "ties-and-numbers": 1,
        "entries-or-ties": 1,
        "entries": 1,
        "entries-and-numbers": 1,
        "several": 1,
    }


def test_windowfunnel_counts_one_event_for_several_steps(scene: Scene) -> None:
    scene.story("0/A", attempt=None)
    funnel = scene.funnel("A", step("A", "B"), conversionWindowSeconds=HOUR_S)
    record = compare(scene, funnel, WF)
    assert [pick(each, "rules", "onlyThere") for each in record["reasons"]] == [
        (["ties", "oneEvent"], 1)
    ]
    assert compare(scene, funnel, f"{WF}:strict_once")["reasons"] == []


@pytest.mark.parametrize(
    ("tool", "definition", "query", "rule"),
    [
        (MP, {"order": "any"}, {}, "anyOrder"),
        (MP, {"steps": ["A", STRICT_B]}, {}, "strict"),
        (AM, {"steps": ["A", step("A", "B", strict=True)]}, {}, "oneEvent"),
        (AM, {"steps": ["A", step("A", "B")], "order": "any"}, {}, "oneEvent"),
        (PH, {"steps": AXB, "order": "any"}, {}, "anyOrder"),
        (WF, {"steps": ["A", STRICT_B]}, {}, "strict"),
        (PH, {"steps": [*AXB[:2], STRICT_B]}, {}, "excluded"),
        (PH, {"steps": ["A", step("B", "C", mode="all_of")]}, {}, "allOf"),
        (PH, {"repeat": True}, {}, "entries"),
        (PH, {}, {"settled": "true"}, "settled"),
        (PH, {"breakdownProperties": ["plan"]}, {"cohort": {"plan": "pro"}}, "cohortFrom"),
        (MP, {"steps": ["A", step("A", "B")]}, {}, "oneEvent"),
        (MP, {"repeat": True}, {}, "entries"),
        (AM, {"steps": AXB}, {}, "excluded"),
        ("ga4", {}, {}, "ga4"),
    ],
)
def test_a_rule_that_is_not_counted_is_refused_by_name(
    scene: Scene, tool: str, definition: Json, query: Json, rule: str
) -> None:
    more = {name: value for name, value in definition.items() if name != "steps"}
    rows = definition.get("steps", ["A", "B"])
    funnel = scene.funnel(*rows, conversionWindowSeconds=HOUR_S, **more)
    answer = scene.request(funnel, "results", countLike=tool, **query)
    assert faults(answer) == ["countLike rule_not_counted"]
    assert answer.json()["errors"][0]["message"].startswith(f"{rule}: ")


def test_parameters_that_do_not_fit(scene: Scene) -> None:
    funnel = scene.funnel("A", "B")
    for query in ({"mode": "seconds"}, {"shown": 61}):
        [name] = query
        assert faults(scene.request(funnel, "results", **query), 400) == [f"{name} needs_tool"]
    unknown = scene.request(funnel, "results", countLike="posthog", mode="seconds")
    assert faults(unknown) == ["mode not_one_of"]
    several = scene.request(funnel, "results", countLike="mixpanel", mode="uniques,totals")
    assert faults(several) == ["mode not_one_of"]


@pytest.mark.parametrize(
    ("story", "completed"),
    [
        ("0/A 1800/A 3700/B", [False]),
        ("0/A 3700/A 3800/B", [False, True]),
        ("0/B 1/A 1/A 50/A 60/B", [True, True]),
        ("0/A 10/X 20/A 30/B", [False, True]),
    ],
)
def test_totals_count_every_run(scene: Scene, story: str, completed: list[bool]) -> None:
    scene.story(story, attempt=None)
    funnel = scene.funnel(
        *(AXB if "X" in story else AB), conversionWindowSeconds=HOUR_S, repeat=True
    )
    record = compare(scene, funnel, f"{MP}:totals")
    assert pick(record, "entered", "completed") == (len(completed), sum(completed))


def test_totals_begin_runs_in_the_period(scene: Scene) -> None:
    scene.story("0/A 200/A 300/B", attempt=None)
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, repeat=True)
    record = compare(scene, funnel, f"{MP}:totals", **scene.period(100, 9000))
    assert pick(record, "entered", "completed", "enteredHere") == (1, 1, 0)
    assert [each["rules"] for each in record["reasons"]] == [["entries"]]


REASONS = {
    "tie": "10/A 10/B",
    "number": "10/A(2) 20/B(1)",
    "entry": "0/A 3700/A 3800/B",
    "before": "-50/A 10/A 20/B",
    "same": "10/A 20/B",
}


def test_each_reason_opens_its_units(scene: Scene) -> None:
    for attempt, story in REASONS.items():
        for event in story.replace("-50/A ", "").split():
            scene.story(event, visitor=attempt, attempt=attempt)
    scene.send_event(-50, "A", "before", attempt="before")
    funnel = scene.attempts("A", "B")
    query = {"countLike": PH, **scene.period(0, 9000)}
    record = compare(scene, funnel, PH, **scene.period(0, 9000))
    names = {each["reason"]: each["onlyThere"] for each in record["reasons"]}
    assert names == {"ties": 1, "numbers": 1, "entries": 2}
    listed = {
        reason: scene.units(funnel, differs="true", reason=reason, **query) for reason in names
    }
    assert {reason: sorted(units) for reason, units in listed.items()} == {
        "ties": ["tie"],
        "numbers": ["number"],
        "entries": ["before", "entry"],
    }
    there = listed["ties"]["tie"]["there"]
    assert pick(there, "reached", "completed", "reason") == (2, True, "ties")
    assert there["sentence"] == (
        "By PostHog's rules it completes; here it stops after step 1: "
        "equal times count in the order of the steps."
    )
    assert len(scene.units(funnel, differs="true", **query)) == 4
    rows = scene.table(funnel, "export/units", differs="true", reason="entries", **query)
    assert len(rows) == 2
    unknown = scene.request(funnel, "units", differs="true", reason="afterEnd", **query)
    assert faults(unknown, 400) == ["reason does_not_fit"]
    assert faults(scene.request(funnel, "units", differs="true"), 400) == ["differs needs_tool"]
    assert faults(scene.request(funnel, "units", reason="ties", **query), 400) == [
        "reason required"
    ]


@pytest.mark.parametrize(
    ("tool", "story", "decisions", "reached"),
    [
        (PH, "0/A 0/B", {"A": "entry", "B": "accepted"}, 2),
        (PH, "0/A 3700/A 3800/B", {"A": "entry", "B": "accepted"}, 2),
        (AM, "0.2/B 0.7/A", {"A": "entry", "B": "accepted"}, 2),
        (MP, "0.2/B 1.7/A", {"A": "entry", "B": "accepted"}, 2),
        (MP, "0/A 3700/B", {"A": "entry", "B": "noMatch"}, 1),
        (WF, "0/A 0/B", {"A": "entry", "B": "accepted"}, 2),
        (f"{WF}:strict_order", "0/A 5/F 6/B", None, 1),
    ],
)
@pytest.mark.parametrize("unit", ["visitor", "attempt"])
def test_a_trace_has_both_decisions(
    scene: Scene, unit: str, tool: str, story: str, decisions: Json | None, reached: int
) -> None:
    scene.start_ms -= scene.start_ms % 1000
    scene.story(story, visitor="ann", attempt="a1")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    if unit == "attempt":
        funnel = scene.attempts("A", "B", sequenceProperty="n")
    name, _, mode = tool.partition(":")
    query = {"countLike": name, **({"mode": mode} if mode else {})}
    trace = scene.trace(funnel, "ann" if unit == "visitor" else "a1", **query)
    there = trace["there"]
    assert there["reached"] == reached
    assert (there["reason"] is None) == (trace["reached"] == reached)
    if decisions is None:
        assert there["events"] is None
        return
    types = {event["eventId"]: event["name"] for event in trace["events"]}
    last = {types[event["eventId"]]: event["decision"] for event in there["events"]}
    assert last == decisions
    assert [event["eventId"] for event in there["events"]] == list(types)


@pytest.mark.parametrize("tool", [PH, AM, f"{MP}:optimized", WF])
def test_every_entry_of_a_large_unit_is_tried(scene: Scene, tool: str) -> None:
    """Only the last of 2,000 entries leads to the next step."""
    items = [scene.item(60 * minute, "A") for minute in range(2_000)]
    items.append(scene.item(60 * 1_999 + 30, "B"))
    for chunk in chunks(items, 500):
        scene.track(chunk)
    window = {"conversionWindow": {"value": 1, "unit": "minute"}}
    funnel = scene.funnel("A", "B", **window, equalTimes="inStepOrder")
    assert pick(compare(scene, funnel, tool), "entered", "completed") == (1, 1)


def test_tools_agree_where_their_rules_do(scene: Scene) -> None:
    """Without other rules, `inStepOrder` is PostHog and windowFunnel, and `proven` is strict."""
    draw = Random(7)
    items = [
        scene.item(draw.choice((0, 1, 2, 20, 21, 60, 61, 80)), draw.choice("AABBC"), f"v{visitor}")
        for visitor in range(1_000)
        for _ in range(draw.randint(1, 6))
    ]
    for chunk in chunks(items, 500):
        scene.track(chunk)
    window = {"conversionWindow": {"value": 1, "unit": "minute"}}
    proven = scene.funnel(*ABC, **window)
    in_step_order = scene.funnel(*ABC, **window, equalTimes="inStepOrder")
    for funnel, tool in (
        (in_step_order, PH),
        (in_step_order, WF),
        (in_step_order, MS),
        (proven, f"{WF}:strict_increase,strict_once"),
    ):
        record = compare(scene, funnel, tool)
        assert record["reasons"] == [], tool
        assert record["sameUnits"] == record["entered"] > 500
    assert compare(scene, proven, PH)["onlyThere"] > 10


@pytest.mark.parametrize("tool", [PH, AM, MP, WF])
def test_payments_count_for_their_attempts_as_here(
    scene: Scene, warehouse: Warehouse, tool: str
) -> None:
    funnel = scene.attempts("A", "paid")
    for attempt in ("verified", "unverified", "another visitor"):
        scene.story("0/A", attempt=attempt)
    assert scene.counts(funnel) == [3, 0]
    paid = [
        ProviderEvent("paid", "ann", True, {"attempt": "verified"}),
        ProviderEvent("paid", "ann", False, {"attempt": "unverified"}),
        ProviderEvent("paid", "bob", True, {"attempt": "another visitor"}),
    ]
    store_provider_events(scene, warehouse, paid)
    record = compare(scene, funnel, tool)
    assert pick(record, "entered", "completed", "sameUnits") == (3, 1, 3)
    assert any("payment providers" in text for text in record["assumed"])
    for attempt, reached in (("verified", 2), ("unverified", 1)):
        there = scene.trace(funnel, attempt, countLike=tool)["there"]
        assert there["reached"] == reached
        accepted = [event for event in there["events"] if event["decision"] == "accepted"]
        assert len(accepted) == reached - 1


@pytest.mark.parametrize("tool", [PH, AM, MP, WF])
def test_merged_visitors_are_one_person(scene: Scene, tool: str) -> None:
    scene.story("0/A", visitor="phone", attempt=None)
    scene.story("9/B", visitor="desk", attempt=None)
    scene.identify("user", "phone", "desk")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    assert pick(compare(scene, funnel, tool), "entered", "completed") == (1, 1)


def test_a_trend_counts_like_a_tool_in_each_bucket(scene: Scene) -> None:
    """The period ends with the second hour: what completes later counts only here."""
    scene.start_ms -= scene.start_ms % (HOUR_S * 1000)
    for visitor, story in {
        "plain": "0/A 10/B",
        "tied": "5/A 5/B",
        "in both": "20/A 3700/A 3710/B",
        "late": "7000/A 7300/B",
    }.items():
        scene.story(story, visitor=visitor, attempt=None)
    funnel = scene.funnel("A", "B", conversionWindow={"value": 10, "unit": "minute"})
    query = {"countLike": PH, "interval": "hour", **scene.period(0, 2 * HOUR_S)}
    record = scene.report(funnel, "trend", **query)
    assert pick(record["countLike"], "tool", "rules") == (PH, "2026-11")
    first, second = (bucket["countLike"] for bucket in record["data"])
    figures = ("entered", "completed", "completedHere", "onlyThere", "onlyHere")
    assert pick(first, *figures) == (3, 2, 1, 1, 0)
    assert pick(second, *figures) == (2, 1, 2, 0, 1)
    assert [reason["reason"] for reason in first["reasons"]] == ["ties"]
    assert [reason["reason"] for reason in second["reasons"]] == ["afterEnd"]
    assert first["sentences"][0] == (
        "By PostHog's rules (November 2026) 2 of 3 visitors completed, here 1."
    )
    assert "countLike" not in scene.report(funnel, "trend", **scene.period(0, 100))["data"][0]


@pytest.mark.parametrize(
    ("tool", "cohorts", "others"),
    [
        (PH, {"Chrome": (1, 1), "Safari": (0, 0)}, 1),
        (AM, {"Chrome": (0, 0), "Safari": (1, 1)}, 0),
        (MP, {"Chrome": (1, 0), "Safari": (1, 1)}, 0),
    ],
)
def test_a_comparison_takes_the_value_of_a_cohort_as_the_tool_does(
    scene: Scene, tool: str, cohorts: Json, others: int
) -> None:
    """Story 24 of the rules, a visitor of Chrome here too, and one whose first value is another."""
    for event, value in (("0/A", "Chrome"), ("3700/A", "Safari"), ("3710/B", "Safari")):
        scene.story(event, visitor="ann", attempt=None, browser=value)
    scene.story("0/A", visitor="ben", attempt=None, browser="Chrome")
    scene.story("0/B", visitor="eve", attempt=None, browser="Edge")
    scene.story("10/A", visitor="eve", attempt=None, browser="Chrome")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, breakdownProperties=["browser"])
    record = scene.report(funnel, "compare", property="browser", countLike=tool)
    counted = {
        cohort["cohort"]["browser"]: pick(cohort["countLike"], "entered", "completed")
        for cohort in record["cohorts"]
    }
    of_others = 2 - (tool == PH)  # Ben, and Eve in all tools but PostHog.
    entered, completed = cohorts["Chrome"]
    assert counted == {**cohorts, "Chrome": (entered + of_others, completed)}
    assert record["countLike"]["others"]["entered"] == others
    assert record["countLike"]["definition"]["cohortFrom"] == {
        PH: "first", AM: "entry", MP: "eachEntry"
    }[tool]  # fmt: skip


def test_periods_count_like_a_tool_at_the_same_age(scene: Scene) -> None:
    for visitor, story in {
        "before": "0/A 0/B",
        "now": "100/A 100/B",
        "plain": "110/A 120/B",
    }.items():
        scene.story(story, visitor=visitor, attempt=None)
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    earlier = {"compareStartAt": scene.at(0), "compareEndAt": scene.at(100)}
    query = {"countLike": PH, **scene.period(100, 200), **earlier}
    record = scene.report(funnel, "periods", **query)
    figures = ("completed", "completedHere", "onlyThere")
    assert pick(record["countLike"], *figures) == (2, 1, 1)
    assert pick(record["earlier"]["countLike"], *figures) == (1, 0, 1)


@pytest.mark.parametrize(
    ("what", "query", "rules"),
    [
        ("trend", {"countLike": "ga4"}, ["ga4"]),
        ("trend", {"countLike": PH, "settled": "true"}, ["settled"]),
        ("compare", {"property": "plan", "countLike": WF}, ["cohortFrom"]),
        ("compare", {"property": "plan", "countLike": PH, "breakdownAt": "first"}, ["cohortFrom"]),
        ("periods", {"countLike": PH, "cohort": {"plan": "pro"}}, ["cohortFrom"]),
    ],
)
def test_other_questions_refuse_in_the_same_words(
    scene: Scene, what: str, query: Json, rules: list[str]
) -> None:
    scene.story("0/A 1/B", plan="pro")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, breakdownProperties=["plan"])
    if what == "periods":
        query = query | scene.period(100, 200)
        query |= {"compareStartAt": scene.at(0), "compareEndAt": scene.at(100)}
    answer = scene.request(funnel, what, **query)
    assert faults(answer) == ["countLike rule_not_counted"] * len(rules)
    messages = [fault["message"].partition(": ")[0] for fault in answer.json()["errors"]]
    assert messages == rules


@pytest.mark.parametrize(
    "what", ["timing", "next", "verdict", "drivers", "flows", "forecast/replays", "unit-table"]
)
def test_questions_that_count_no_units_say_why_they_refuse(scene: Scene, what: str) -> None:
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    answer = scene.request(funnel, what, countLike=PH)
    [fault] = [each for each in answer.json()["errors"] if each["field"] == "countLike"]
    assert answer.status_code == 400
    assert fault["message"].startswith("This question does not count like another tool")
