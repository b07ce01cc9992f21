"""The second program that counts like other tools: the stories of the rules, and the cases of
PostHog's and ClickHouse's own tests, told again as events and expected steps.

Times are in seconds. A value in brackets is a sequence number, or a value of the breakdown.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.funnels.reference.other_tools import (
    NOTHING,
    Event,
    NotKnown,
    ToolQuery,
    amplitude,
    by_value,
    counted_runs,
    mixpanel,
    mixpanel_totals,
    numbered,
    own_result,
    posthog,
    reasons,
    window_funnel,
)
from tests.funnels.scenario import EVENT, HOUR_S

Expected = int | type[NotKnown] | None


def events_of(story: str) -> list[Event]:
    return [
        Event(
            round(float(seconds) * 1000),
            name,
            number=int(sign) if sign.isdigit() else None,
            value=sign if sign and not sign.isdigit() else None,
        )
        for seconds, name, sign in EVENT.findall(story)
    ]


def question(steps: str, **more: Any) -> ToolQuery:
    """A question about steps in the notation `A B|C`, with one hour unless `window_s` differs."""
    window_s = more.pop("window_s", HOUR_S)
    names = [step.split("|") for step in steps.split()]
    return ToolQuery(names, None if window_s is None else window_s * 1000, **more)


def reached(
    tool: Callable[..., Any], query: ToolQuery, story: str, *modes: Any, **options: Any
) -> Expected:
    try:
        count: int = tool(query, events_of(story), *modes, **options).reached
    except NotKnown:
        return NotKnown
    return count


AB, ABC = question("A B"), question("A B C")
X_EXCLUDED = question("A B", excluded={1: "X"})
UNKNOWN = NotKnown

# Number, question, events; steps reached by Penstock, PostHog, Mixpanel, Amplitude, windowFunnel.
# None: the story is not about that tool.
STORIES: Sequence[tuple[int, ToolQuery, str, Expected, Expected, Expected, Expected, Expected]] = [
    (1, AB, "0/A 0/B", 1, 2, 2, 2, 2),
    (2, AB, "0/B 0.03/A", 1, 1, 2, 2, 1),
    (3, AB, "0.2/B 1.7/A", 1, 1, 2, 1, 1),
    (4, AB, "0/A 1800/A 3700/B", 2, 2, 1, 2, 2),
    (5, AB, "0/A 3700/A 3800/B", 2, 2, 1, 2, 2),
    (6, question("A B", start_ms=0, end_ms=1_000_000), "900/A 1100/B", 2, 1, 2, 2, 1),
    (7, AB, "0.1/A 3600.9/B", 1, 1, 1, 2, 1),
    (8, question("A A|B"), "0/A", 1, 1, UNKNOWN, 1, 2),
    (9, question("A A"), "0/A 0/A", 1, 2, UNKNOWN, 1, 2),
    (10, X_EXCLUDED, "0/A 10/X 20/B", 1, 0, 1, UNKNOWN, None),
    (11, X_EXCLUDED, "0/A 10/X 20/A 30/B", 2, 2, 1, UNKNOWN, None),
    (12, X_EXCLUDED, "0/A 10/X 10/B", 1, 2, UNKNOWN, UNKNOWN, None),
    (13, X_EXCLUDED, "0/A 10/X 20/B 3700/A", 1, 0, 1, UNKNOWN, None),
    (14, question("A B", strict=True), "0/A 5/F 10/B", 2, 1, UNKNOWN, 1, None),
    (15, question("A B C", strict=True), "0/A 5/B 10/A 15/C", 2, 2, UNKNOWN, 2, None),
    (16, question("A B", any_order=True), "0/B 10/A", 2, 2, 2, 2, None),
    (17, question("A B", any_order=True), "0/B", 1, 1, UNKNOWN, 0, None),
    (18, question("A B C", window_s=1800), "0/A 1500/B 3000/C", 2, 2, 2, 2, 2),
    (19, ABC, "0/B 10/C", 0, 0, 0, 0, 0),
    (20, question("A B", of_attempts=True), "0/A 3700/A 3800/B", 1, 2, 1, 2, 2),
    (21, AB, "0/A 10/B", 2, 2, 2, 2, 2),
    (22, AB, "0/A(2) 10/B(1)", 1, 2, 2, 2, 2),
    (23, AB, "0/A 10/B(Safari)", 2, 2, 2, 2, 2),
    (24, AB, "0/A(Chrome) 3700/A(Safari) 3710/B(Safari)", 2, 2, 1, 2, 2),
    (25, AB, "0/A 3000/A 3060/B", 2, 2, 2, 2, 2),
    (26, question("A B", start_ms=100_000, of_attempts=True), "0/A 200/A 300/B", 0, 2, 2, 2, 2),
    (27, AB, "10/A 20/A 20/B", 2, 2, 2, 2, 2),
]


@pytest.mark.parametrize(
    ("query", "story", "ours", "ph", "mp", "am", "wf"),
    [pytest.param(*story[1:], id=f"story {story[0]}") for story in STORIES],
)
def test_the_stories(
    query: ToolQuery,
    story: str,
    ours: Expected,
    ph: Expected,
    mp: Expected,
    am: Expected,
    wf: Expected,
) -> None:
    counted = [reached(tool, query, story) for tool in (own_result, posthog, mixpanel, amplitude)]
    assert counted == [ours, ph, mp, am]
    if wf is not None:
        assert reached(window_funnel, query, story) == wf


@pytest.mark.parametrize(
    ("story", "mode", "steps", "count"),
    [
        ("0/A 0/B", "strict_increase", "A B", 1),
        ("0/A", "strict_once", "A A|B", 1),
        ("0/A 0/A", "strict_increase", "A A", 1),
        ("0/A 5/F 10/B", "strict_order", "A B", 1),
        ("0/A 5/B 10/A 15/C", "strict_order", "A B C", 3),
        ("10/A 20/A 20/B", "strict_increase", "A B", 1),
        ("10/A 20/A 20/B", "strict_increase strict_once", "A B", 2),
    ],
)
def test_the_stories_with_modes(story: str, mode: str, steps: str, count: int) -> None:
    assert reached(window_funnel, question(steps), story, *mode.split()) == count


def test_the_stories_with_other_settings() -> None:
    assert reached(own_result, AB, "0/B 10/A") == 1
    assert reached(own_result, AB, "0/B") == 0
    assert own_result(AB, events_of("0/A 0/B"), ties="inStepOrder").reached == 2
    assert own_result(question("A A"), events_of("0/A 0/A"), ties="inStepOrder").reached == 2
    early, late = "0/B 0.03/A", "0.1/A 3600.9/B"
    assert reached(posthog, AB, early, tolerance_ms=50) == 2
    assert reached(amplitude, AB, early, grain_ms=1) == 1
    assert reached(window_funnel, AB, early, unit_ms=1000) == 2
    assert reached(amplitude, AB, late, grain_ms=1) == 1
    assert reached(window_funnel, AB, late, unit_ms=1000) == 2
    assert reached(mixpanel, AB, "0/A 1800/A 3700/B", optimized=True) == 2


def test_the_stories_of_every_run() -> None:
    every_run = replace(AB, every_run=True)

    def runs(story: str, query: ToolQuery = every_run) -> list[int]:
        return [run.reached for run in counted_runs(query, numbered(events_of(story)), {})]

    def totals(story: str, query: ToolQuery = AB) -> list[int]:
        return [run.reached for run in mixpanel_totals(query, events_of(story))]

    assert runs("0/A 1800/A 3700/B") == [1]
    assert runs("0/A 3700/A 3800/B") == totals("0/A 3700/A 3800/B") == [1, 2]
    assert totals("0/A 10/X 20/A 30/B", X_EXCLUDED) == [1, 2]
    assert runs("0/A 200/A 300/B", replace(every_run, start_ms=100_000)) == []


def test_the_stories_of_exclusions() -> None:
    assert own_result(X_EXCLUDED, events_of("0/A 10/X 20/B")).is_excluded
    assert own_result(X_EXCLUDED, events_of("0/A 10/X 10/B")).is_excluded
    assert not own_result(X_EXCLUDED, events_of("0/A 10/X 20/B 3700/A")).is_excluded
    assert own_result(question("A B C", strict=True), events_of("0/A 5/B 10/A 15/C")).is_excluded


def test_the_stories_of_breakdowns() -> None:
    late, changed = events_of(STORIES[22][2]), events_of(STORIES[23][2])
    tools = own_result, posthog, mixpanel, amplitude
    assert [tool(AB, late).value for tool in tools] == [None, "Safari", None, None]
    assert [own_result(AB, changed).value, amplitude(AB, changed).value] == ["Safari"] * 2
    assert posthog(AB, changed).value == "Chrome"
    each = by_value("mixpanel", AB, changed)
    assert {value: result.reached for value, result in each.items()} == {"Chrome": 1, "Safari": 2}


def test_the_story_of_times() -> None:
    """Minutes from step 1 to step 2."""
    events = events_of("0/A 3000/A 3060/B")
    tools = own_result, posthog, mixpanel, amplitude
    assert [(tool(AB, events).took_ms or 0) / 60_000 for tool in tools] == [51, 1, 51, 51]
    assert mixpanel(AB, events, optimized=True).took_ms == 60_000


def test_the_story_of_two_attempts() -> None:
    """Of two attempt IDs, each with one event, the second never enters."""
    for tool in (own_result, posthog, mixpanel, amplitude, window_funnel):
        assert [reached(tool, AB, story) for story in ("0/A", "10/B")] == [1, 0]


# -- PostHog's own tests -------------------------------------------------------------------------

DAYS_14 = 14 * 86_400


def counts(tool: Callable[..., Any], query: ToolQuery, stories: Sequence[str]) -> list[int]:
    """How many units reach each step."""
    results = [tool(query, events_of(story)).reached for story in stories]
    return [sum(each >= step for each in results) for step in range(1, len(query.steps) + 1)]


POSTHOG_IN_ORDER: Sequence[tuple[str, str, Sequence[str], Sequence[int]]] = [
    (
        "events",
        "S P M",
        ["0/S", "0/S 1/P", "0/S 1/P 2/M", "0/M", "0/P 1/S 2/M"],
        [4, 2, 1],
    ),
    ("order", "S M", ["0/S", "0/S", "1/S 2/M", "0/M", "0/M 1/S"], [4, 1]),
    (
        "any event",
        "S|M S|M S|M",
        ["0/S", "0/S 1/M", "0/S 1/M", "0/M", "0/M 1/S 2/M"],
        [5, 3, 1],
    ),
    ("skipped step", "S P M", ["0/S 1/M"], [1, 0, 0]),
    (
        "repeated steps",
        "S P P P P",
        [
            "0/P 1/S",
            "0/S 1/P",
            "0/P 1/S 2/x 3/P",
            "0/x 1/P 2/x 3/P 4/S 5/P",
            "0/S 1/P 2/x 3/P 4/P 5/P",
            "0/P 1/x 2/P 3/P 4/P",
        ],
        [5, 4, 1, 1, 1],
    ),
    ("the same step twice", "S S", ["0/S 1/S", "0/S"], [2, 1]),
    ("equal times", "S P", ["0/S 0/P", "0/S"], [2, 1]),
    (
        "ten steps at one time",
        "a b b c c d b c d a",
        ["0/a 0/b 0/b 0/c 0/c 0/d 0/b 0/c 0/d 0/a"],
        [1] * 10,
    ),
    ("many events of one time", "a b c", [" ".join(["0/a"] * 8 + ["0/b", "0/c"])], [1, 1, 1]),
]
"""Name, steps, stories, and the number of units that reach each step."""


@pytest.mark.parametrize(
    ("name", "steps", "stories", "expected"),
    POSTHOG_IN_ORDER,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_posthogs_cases_in_order(
    name: str, steps: str, stories: Sequence[str], expected: Sequence[int]
) -> None:
    assert counts(posthog, question(steps, window_s=DAYS_14), stories) == expected


FIVE = "A B C D E"
DETOURS = (
    "3600/A 7200/B 10800/x 14400/C 16200/x 18000/D 19800/x 21600/E",
    "3600/A 7200/B 14400/C 16200/x 18000/D 19800/x 21600/E",
    "3600/A 5400/x 7200/B 14400/C 18000/D 19800/x 21600/E",
)


@pytest.mark.parametrize(
    ("steps", "excluded", "window_s", "stories", "expected"),
    [
        ("A B", {1: "x"}, 86_400, ["0/A 3600/B", "0/A 60/x 3600/B"], [1, 1]),
        ("A B", {1: "x"}, 86_400, ["0/A 3600/x", "0/A 90000/x"], [1, 0]),
        ("A B", {1: "x"}, 10, ["0/A 1/x 31/A"], [1, 0]),
        ("A B", {1: "x"}, 10, ["0/A 31/A 32/x"], [1, 0]),
        ("A B", {1: "x"}, 10, ["0/A 1/A 2/x"], [0, 0]),
        ("A B", {1: "x"}, 10, ["0/A 11/x 12/B"], [1, 0]),
        (FIVE, {1: "x"}, DAYS_14, DETOURS, [2] * 5),
        (FIVE, {2: "x"}, DAYS_14, DETOURS, [2] * 5),
        (FIVE, {3: "x"}, DAYS_14, DETOURS, [1] * 5),
        (FIVE, {4: "x"}, DAYS_14, DETOURS, [0] * 5),
        (FIVE, {2: "x", 3: "x"}, DAYS_14, DETOURS, [1] * 5),
        (
            FIVE,
            {1: "x", 3: "y"},
            DAYS_14,
            [
                "1/A 2/x 3/B 4/C 5/y 6/D 7/E",
                "1/A 2/y 3/B 4/C 5/y 6/D 7/x 8/E",
                "1/A 2/x 3/B 4/C 5/D 6/x 7/E",
                "1/A 2/B 4/C 5/D 6/E",
            ],
            [1] * 5,
        ),
    ],
)
def test_posthogs_cases_with_exclusions(
    steps: str,
    excluded: dict[int, str],
    window_s: int,
    stories: Sequence[str],
    expected: Sequence[int],
) -> None:
    query = question(steps, excluded=excluded, window_s=window_s)
    assert counts(posthog, query, stories) == expected


@pytest.mark.parametrize(
    ("steps", "stories", "expected"),
    [
        (
            "S P I",
            [
                "0/S",
                "0/P 1/S",
                "0/S 1/P 2/x 3/I",
                "0/I 1/x 2/P 3/S",
                "0/P 1/S 2/x 3/P 4/I",
                "0/x 1/S 2/x 3/P",
                "0/x 1/S 2/P 3/I 4/x",
                "0/I 1/P",
            ],
            [7, 2, 1],
        ),
        (
            "U S P V",
            [
                "0/U",
                "0/U 1/P",
                "0/U 1/S 2/x 3/P 4/x 5/I",
                "0/x 1/U 2/S 3/P 4/x",
                "0/x 1/U 2/S 3/P 4/x",
                "0/x 1/U 2/S 3/P 4/x",
                "0/x 1/U 2/S 3/P 4/U 5/V",
                "0/x 1/U 2/U 3/S 4/P 5/V",
            ],
            [8, 6, 5, 1],
        ),
    ],
)
def test_posthogs_cases_in_strict_order(
    steps: str, stories: Sequence[str], expected: Sequence[int]
) -> None:
    query = question(steps, window_s=DAYS_14, strict=True)
    assert counts(posthog, query, stories) == expected


def test_posthogs_cases_in_any_order() -> None:
    query = question("S P I", window_s=86_400, any_order=True)
    twice = "0/I 7200/S 14400/P 86400/P 97200/I 108000/S"
    assert counts(posthog, query, ["0/S", "0/P 3600/S", twice]) == [3, 2, 1]


def test_posthogs_cases_of_windows() -> None:
    stories = ["0/A 300/B", "0/A", "0/A 900/B"]
    assert counts(posthog, question("A B", window_s=DAYS_14), stories) == [3, 2]
    assert counts(posthog, question("A B", window_s=300), stories) == [3, 1]
    assert counts(posthog, question("A B", window_s=DAYS_14), ["0/A 1207020/B"]) == [1, 1]


def test_posthogs_cases_of_periods_and_units() -> None:
    from_day_one = question("A B", window_s=DAYS_14, start_ms=8 * 3_600_000)
    assert counts(posthog, from_day_one, ["3600/A"]) == [0, 0]
    by_session = ["0/A 1/B 2/C", "3/A 4/B", "0/A"]
    assert counts(posthog, question("A B C", window_s=DAYS_14), by_session) == [3, 2, 1]
    by_person = ["0/A 1/B 2/C 3/A 4/B", "0/A"]
    assert counts(posthog, question("A B C", window_s=DAYS_14), by_person) == [2, 1, 1]


def test_posthogs_cases_of_times() -> None:
    """Seconds from step 1 to the furthest step."""

    def took_s(query: ToolQuery, story: str) -> float:
        return (posthog(query, events_of(story)).took_ms or 0) / 1000

    query = question("a b", window_s=600)
    assert took_s(query, "600/a 660/b") == 60
    assert took_s(query, "60/a 2100/a 2460/b") == 360
    tries = "3600/A 7200/B 10800/C 187200/A 190800/B 284400/A 295200/B"
    assert took_s(question("A B C", window_s=86_400), tries) == 7200


# -- ClickHouse's own tests ----------------------------------------------------------------------

EIGHT = "1/1 2/2 3/3 4/4 5/5 6/6 7/7 8/8"
LETTERS = [
    "1/a 2/b 3/c",
    "1/a 2/d 3/b 4/c",
    "1/a 2/a 3/b 4/b 5/c 6/c",
    "1/a 2/a 3/a 4/a 5/b 6/b 7/c 8/c",
    "1/a 2/a 3/b 4/b 5/d 6/c 7/c",
    "1/c 2/c 3/b 4/b 5/a 6/a",
    "1/a 2/c 3/b",
]
ONE_TIME = "0/0 1/1 1/2 1/3 2/4"
FAILURES = ["180/f 220/f 250/s", "100/f 250/f", "200/s 210/f 230/s"]


CLICKHOUSE: Sequence[tuple[str, int, str, Sequence[str], Sequence[int]]] = [
    ("1", 10_000, "", [EIGHT], [1]),
    ("1 2", 10_000, "", [EIGHT], [2]),
    ("1 2 3 8", 10_000, "", [EIGHT], [4]),
    ("3 4 5 6 7", 2, "", [EIGHT], [3]),
    ("3 4 5 6 7", 3, "", [EIGHT], [4]),
    ("3 4 5 6 7", 4, "", [EIGHT], [5]),
    ("1 8", 10_000, "", [EIGHT], [2]),
    ("8 1", 10_000, "", [EIGHT], [1]),
    (
        "1|2|3|4|5|6|7 2|3|4|5|6|7|8 1|2|3|4|5|6 4|5|6|7|8",
        4,
        "",
        [EIGHT],
        [4],
    ),
    ("a b c", 86_400, "", LETTERS[:6], [3, 3, 3, 3, 3, 1]),
    ("a b c", 86_400, "strict_order", LETTERS, [3, 1, 3, 3, 2, 1, 1]),
    ("0 1 2 3 4", 10_000, "", [ONE_TIME], [5]),
    ("0 1 2 3 4", 10_000, "strict_increase", [ONE_TIME], [2]),
    ("4 4 4", 10_000, "", [ONE_TIME], [3]),
    ("4 4 4", 10_000, "strict_once", [ONE_TIME], [1]),
    ("4 4 4", 10_000, "strict_increase", [ONE_TIME], [1]),
    ("f f s", 200, "strict_once", FAILURES, [3, 2, 1]),
    ("f f s", 200, "strict_once strict_increase", FAILURES, [3, 2, 1]),
]
"""Steps, window in seconds, modes, stories, and the step that each unit reaches."""


@pytest.mark.parametrize(("steps", "window_s", "modes", "stories", "expected"), CLICKHOUSE)
def test_clickhouses_cases(
    steps: str, window_s: int, modes: str, stories: Sequence[str], expected: Sequence[int]
) -> None:
    query = question(steps, window_s=window_s)
    results = [reached(window_funnel, query, story, *modes.split()) for story in stories]
    assert results == expected


# -- Reasons -------------------------------------------------------------------------------------


def test_reasons_are_the_smallest_sets_of_rules() -> None:
    period = question("A B", start_ms=0, end_ms=1_000_000)
    assert reasons(AB, events_of("0/A 10/B"), "posthog") is None
    assert reasons(AB, events_of("0/A 0/B"), "posthog") == [("ties",)]
    assert reasons(period, events_of("900/A 1100/B"), "posthog") == [("afterEnd",)]
    assert reasons(AB, events_of("0/A(2) 10/B(1)"), "posthog") == [("numbers",)]
    assert reasons(AB, events_of("0/A(2) 0/B(1)"), "posthog") == [("ties", "numbers")]
    assert reasons(AB, events_of("0/A 1800/A 3700/B"), "mixpanel") == [("entries",)]
    assert reasons(AB, events_of("0.1/A 3600.9/B"), "amplitude") == [("ties",)]
    of_attempts = replace(AB, of_attempts=True)
    assert reasons(of_attempts, events_of("0/A 3700/A 3800/B"), "posthog") == [("entries",)]


def test_a_flaw_of_the_engine_is_a_rule() -> None:
    """One event serves two steps."""
    query = question("A A|B")
    assert reasons(query, events_of("0/A"), "windowfunnel") == [("ties", "oneEvent")]


def test_a_unit_that_never_enters_counts_nowhere() -> None:
    for tool in (own_result, posthog, mixpanel, amplitude, window_funnel):
        assert tool(AB, events_of("0/B")) == NOTHING
