"""Trends, times between steps and next events over HTTP."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import faults, fields
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, column, pick, step
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")


def starting(scene: Scene, start_at: str) -> Scene:
    """A scene whose stories start at a given time."""
    scene.start_ms = round(datetime.fromisoformat(start_at).timestamp() * 1000)
    return scene


def refused(scene: Scene, funnel_id: str, what: str, **query: Any) -> list[str]:
    return fields(scene.request(funnel_id, what, **query))


def attempts_every(scene: Scene, seconds: int, count: int, *, completed: int) -> None:
    for number in range(count):
        at = seconds * number
        scene.story(
            f"{at}/A" + (f" {at + 60}/B" if number < completed else ""),
            attempt=f"every-{seconds}-{number}",
        )


# Trend


def test_trend_by_day_fills_gaps_and_sums_to_the_total(scene: Scene) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    scene.story("0/A 90/B", attempt="a")
    scene.story("5/A", attempt="b")
    scene.story(f"{3 * DAY_S}/A {3 * DAY_S + 30}/B", attempt="c")
    funnel_id = scene.attempts("A", "B")
    period = {"startAt": "2026-03-02T00:00:00Z", "endAt": "2026-03-06T00:00:00Z"}
    record = scene.report(funnel_id, "trend", interval="day", **period)
    figures = ("from", "entered", "completed", "droppedOff")
    assert [pick(bucket, *figures) for bucket in record["data"]] == [
        ("2026-03-02T00:00:00.000Z", 2, 1, 1),
        ("2026-03-03T00:00:00.000Z", 0, 0, 0),
        ("2026-03-04T00:00:00.000Z", 0, 0, 0),
        ("2026-03-05T00:00:00.000Z", 1, 1, 0),
    ]
    assert column(record["data"], "conversionRate") == [0.5, None, None, 1.0]
    assert column(record["data"], "medianCompletionMinutes") == [1.5, None, None, 0.5]
    total = scene.results(funnel_id)["aggregate"]["entered"]
    assert sum(column(record["data"], "entered")) == total
    assert not any(bucket["maturing"] or bucket["partial"] for bucket in record["data"])


def test_a_trend_counts_the_loss_after_a_step(scene: Scene) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    stories = ["0/A", "1/A", "2/A 3/B", "4/A 5/B 6/C", f"{DAY_S}/A {DAY_S + 1}/B"]
    for number, story in enumerate(stories):
        scene.story(story, attempt=f"a{number}", plan="pro" if number % 2 else "free")
    funnel_id = scene.attempts("A", "B", "C", breakdownProperties=["plan"])
    period = {"startAt": "2026-03-02T00:00:00Z", "endAt": "2026-03-05T00:00:00Z"}

    def lost(**query: Any) -> list[Any]:
        return column(scene.report(funnel_id, "trend", **period, **query)["data"], "lost")

    assert lost() == [None, None, None]
    assert lost(step=1) == [2, 0, 0]
    assert lost(step=2) == [1, 1, 0]
    assert lost(step=1, cohort={"plan": "pro"}) == [1, 0, 0]
    assert column(scene.report(funnel_id, "trend", step=2)["data"], "lost")[:2] == [1, 1]
    steps = scene.results(funnel_id)["aggregate"]["steps"]
    assert [sum(lost(step=number)) for number in (1, 2)] == column(steps, "droppedOff")[:2]
    assert refused(scene, funnel_id, "trend", step=3) == ["step"]


def test_a_trend_between_two_steps_has_the_rate_of_settled_units(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    """Two days, each the report of its span; the units of the last hours are still open."""
    scene = Scene(workspace, clock, ago_s=2 * DAY_S)
    old, new = 60, 2 * DAY_S - HOUR_S
    stories = ["0/A", "0/A 1/B", "0/A 1/B", "0/A 1/B 2/C", "0/A 1/B 2/C 3/D", "0/A 1/B 2/x 3/C"]
    for number, story in enumerate(stories):
        for start in (old, new):
            events = [event.split("/") for event in story.split()]
            moved = " ".join(f"{start + int(at)}/{name}" for at, name in events)
            scene.story(moved, attempt=f"{start} {number}")
    exclusion = step("x", exclude=True)
    window = {"value": 2, "unit": "hour"}
    funnel_id = scene.attempts("A", "B", exclusion, "C", "D", conversionWindow=window)
    period = scene.period(0, 2 * DAY_S)

    def between(first: int, last: int) -> list[Json]:
        record = scene.report(funnel_id, "trend", fromStep=first, toStep=last, **period)
        return [bucket["between"] for bucket in record["data"] if bucket["entered"]]

    names = ("reached", "continued", "conversionRate")
    settled = ("settled", "settledContinued", "settledRate")
    day, today = between(2, 3)
    assert pick(day, *names) == pick(today, *names) == (4, 2, 0.5)  # one of five is excluded
    assert pick(day, *settled) == (4, 2, 0.5)
    assert pick(today, *settled) == (0, 0, None)
    assert pick(between(1, 4)[0], *settled) == (5, 1, 0.2)
    steps = scene.results(funnel_id, **scene.period(0, DAY_S))["aggregate"]["steps"]
    assert pick(between(2, 4)[0], "settled", "settledContinued") == (
        steps[1]["settled"],
        steps[3]["settled"],
    )
    plain = scene.report(funnel_id, "trend", **period)["data"]
    assert set(column(plain, "between")) == {None}
    for query, field in (
        ({"fromStep": 2}, "toStep"),
        ({"toStep": 2}, "fromStep"),
        ({"fromStep": 2, "toStep": 2}, "toStep"),
        ({"fromStep": 2, "toStep": 5}, "toStep"),
        ({"fromStep": 0, "toStep": 2}, "fromStep"),
    ):
        assert refused(scene, funnel_id, "trend", **query) == [field]


@cases(
    ("interval", "timezone", "begins", "entered"),
    [
        # Clocks in Berlin went forward on 29 March 2026, so that day is one bucket of 23 hours.
        ("day", "Europe/Berlin", ["27T23:00", "28T23:00", "29T22:00"], [1, 23, 24]),
        ("hour", "Asia/Kolkata", None, None),
        ("week", "Europe/Berlin", ["22T23:00", "29T22:00"], [24, 24]),
        ("month", "America/New_York", ["01T05:00"], [48]),
    ],
)
def test_trend_keeps_days_whole_across_clock_changes(
    scene: Scene, interval: str, timezone: str, begins: list[str] | None, entered: list[int] | None
) -> None:
    starting(scene, "2026-03-28T22:30:00+00:00")
    attempts_every(scene, HOUR_S, 48, completed=0)
    period = scene.period(0, 47 * HOUR_S + 1)
    record = scene.report(
        scene.attempts("A", "B"), "trend", interval=interval, timezone=timezone, **period
    )
    if begins is None:
        assert {bucket["from"][14:16] for bucket in record["data"]} == {"30"}, (
            "hours of a zone that is half an hour off"
        )
        assert len(record["data"]) == 48
    else:
        starts = [bucket["from"][:16] for bucket in record["data"]]
        assert starts == [f"2026-03-{begin}" for begin in begins]
        assert column(record["data"], "entered") == entered
    ends = column(record["data"], "to")
    assert ends[:-1] == column(record["data"], "from")[1:]


def test_a_trend_covers_its_period_and_marks_partial_buckets(scene: Scene) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    scene.story("0/A", attempt="a")
    funnel_id = scene.attempts("A", "B")
    record = scene.report(
        funnel_id, "trend", startAt="2026-03-01T12:00:00Z", endAt="2026-03-04T00:00:00Z"
    )
    buckets = [(item["from"][:10], item["entered"], item["partial"]) for item in record["data"]]
    assert buckets == [
        ("2026-03-01", 0, True), ("2026-03-02", 1, False), ("2026-03-03", 0, False),
    ]  # fmt: skip


def test_trend_marks_buckets_whose_windows_are_open(workspace: Tenant, clock: ShiftedClock) -> None:
    scene = Scene(workspace, clock, ago_s=2 * DAY_S)
    scene.story("0/A", attempt="a")
    scene.story(f"{2 * DAY_S - 60}/A", attempt="b")
    record = scene.report(scene.attempts("A", "B"), "trend", interval="hour")
    first, last = (bucket for bucket in record["data"] if bucket["entered"])
    assert [first["maturing"], last["maturing"]] == [False, True]
    assert [first["droppedOff"], last["pending"]] == [1, 1]


def test_a_trend_as_of_a_past_time_shows_the_windows_that_were_open(scene: Scene) -> None:
    scene.story("0/A", attempt="one")
    funnel = scene.attempts("A", "B", conversionWindowSeconds=DAY_S)
    period = scene.period(0, 60)
    for then, is_open in ((9_000, True), (2 * DAY_S, False)):
        query = {"asOf": scene.at(then), **period}
        [bucket] = scene.report(funnel, "trend", **query)["data"]
        assert pick(bucket, "pending", "maturing") == (int(is_open), is_open)


def test_a_trend_of_all_history_ends_at_its_time(scene: Scene) -> None:
    scene.story("0/A", attempt="one")
    funnel = scene.attempts("A", "B")
    buckets = scene.report(funnel, "trend", interval="hour", asOf=scene.at(60))["data"]
    first_hour, last_hour = (
        at_ms // (HOUR_S * 1000) for at_ms in (scene.start_ms, scene.start_ms + 60_000)
    )
    assert column(buckets, "entered") == [1, *[0] * (last_hour - first_hour)]


def test_a_partial_bucket_stops_maturing_when_windows_of_its_period_close(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    scene = Scene(workspace, clock, ago_s=2 * DAY_S)
    scene.story("0/A", attempt="a")
    funnel_id = scene.attempts("A", "B")
    record = scene.report(funnel_id, "trend", interval="month", **scene.period(0, DAY_S))
    assert {bucket["maturing"] for bucket in record["data"]} == {False}


def looks_and_purchases(scene: Scene) -> None:
    """On each of seven days, all 49 visitors look, and seven of them buy a minute later."""
    for visitor in range(49):
        looks = (f"{day * DAY_S + visitor}/look" for day in range(7))
        buy = f"{visitor % 7 * DAY_S + visitor + 60}/buy"
        scene.story(" ".join([*looks, buy]), visitor=f"v{visitor}", attempt=None)


@pytest.mark.parametrize(
    "definition",
    full_except(
        [{}], [{}, {"sequenceProperty": "n"}], "the same figures, with a sequence property"
    ),
)
def test_each_bucket_of_a_trend_of_visitors_is_the_report_of_its_span(
    scene: Scene, definition: Json
) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    looks_and_purchases(scene)
    funnel_id = scene.funnel("look", "buy", conversionWindowSeconds=HOUR_S, **definition)
    period = {"startAt": "2026-03-02T00:00:00Z", "endAt": "2026-03-09T00:00:00Z"}
    trend = scene.report(funnel_id, "trend", **period)
    figures = ("entered", "completed", "pending", "droppedOff", "medianCompletionMinutes")
    assert [pick(bucket, *figures) for bucket in trend["data"]] == [(49, 7, 0, 42, 1)] * 7
    for bucket in trend["data"]:
        report = scene.results(funnel_id, startAt=bucket["from"], endAt=bucket["to"])
        assert pick(report["aggregate"], *figures) == pick(bucket, *figures)
    assert "do not add up" in trend["note"]
    total = scene.results(funnel_id, **period)["aggregate"]
    assert pick(total, "entered", "completed") == (49, 49)


def test_a_visitor_who_buys_on_day_seven_looked_on_six_days(scene: Scene) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    scene.story(" ".join(f"{day * DAY_S}/look" for day in range(7)) + f" {6 * DAY_S + 60}/buy")
    funnel_id = scene.funnel("look", "buy", conversionWindowSeconds=HOUR_S)
    trend = scene.report(funnel_id, "trend")
    days = [pick(bucket, "entered", "completed") for bucket in trend["data"]]
    assert days[:7] == [(1, 0)] * 6 + [(1, 1)]
    assert set(days[7:]) == {(0, 0)}


def test_the_trend_of_attempts_adds_up(scene: Scene) -> None:
    scene.story("0/A")
    assert scene.report(scene.attempts("A", "B"), "trend")["note"] is None


def test_trend_of_one_cohort(scene: Scene) -> None:
    scene.story("0/A", attempt="a", plan="pro")
    scene.story("0/A", attempt="b", plan="free")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    record = scene.report(funnel_id, "trend", cohort={"plan": "pro"})
    assert sum(bucket["entered"] for bucket in record["data"]) == 1
    assert record["data"][0]["entered"] == 1


def test_trend_without_events_is_empty(scene: Scene) -> None:
    assert scene.report(scene.attempts("A", "B"), "trend")["data"] == []


def test_trend_refuses_invalid_parameters(scene: Scene) -> None:
    scene.story("0/A")
    funnel_id = scene.attempts("A", "B")
    assert refused(scene, funnel_id, "trend", interval="minute") == ["interval"]
    for timezone in ("Mars/Olympus", "../etc/passwd", "localtime"):
        assert refused(scene, funnel_id, "trend", timezone=timezone) == ["timezone"]
    assert refused(scene, funnel_id, "trend", colour="red") == ["colour"]
    period = {"startAt": "2020-01-01T00:00:00Z", "endAt": "2026-01-01T00:00:00Z"}
    assert refused(scene, funnel_id, "trend", interval="hour", **period) == ["interval"]


SECONDS_SENT_AS_MILLISECONDS = "1970-01-20T16:13:20Z"


def wrong_time(scene: Scene, name: str) -> None:
    """Send an event whose time is in seconds instead of milliseconds."""
    item = scene.item(0, name, "lost", attempt="lost")
    scene.track([{**item, "timestamp": SECONDS_SENT_AS_MILLISECONDS}])


@pytest.mark.parametrize(
    ("unit", "interval", "name"),
    full_except(
        [("attempt", "hour", "A"), ("visitor", "day", "unrelated")],
        product(("attempt", "visitor"), ("hour", "day", "week", "month"), ("A", "unrelated")),
        "all combinations of units, intervals and events",
    ),
)
def test_a_trend_survives_an_event_of_1970(
    workspace: Tenant, clock: ShiftedClock, unit: str, interval: str, name: str
) -> None:
    scene = Scene(workspace, clock, ago_s=80 * DAY_S)
    wrong_time(scene, name)
    attempts_every(scene, 40 * DAY_S, 2, completed=1)
    funnel_id = scene.attempts("A", "B") if unit == "attempt" else scene.funnel("A", "B")
    trend = scene.report(funnel_id, "trend", interval=interval)
    assert [bucket["entered"] for bucket in trend["data"] if bucket["entered"]] == [1, 1]
    assert trend["data"][0]["entered"] == 1
    assert trend["servedFrom"] == "query"


@pytest.mark.parametrize("unit", ["attempt", "visitor"])
def test_a_trend_runs_from_the_first_entry_until_now(
    workspace: Tenant, clock: ShiftedClock, unit: str
) -> None:
    scene = Scene(workspace, clock, ago_s=5 * HOUR_S)
    scene.send_event(-300 * DAY_S, "unrelated")
    attempts_every(scene, HOUR_S, 3, completed=0)
    funnel_id = scene.attempts("A", "B") if unit == "attempt" else scene.funnel("A", "B")
    trend = scene.report(funnel_id, "trend", interval="hour")
    assert column(trend["data"], "entered") == [1, 1, 1, 0, 0, 0]


def test_a_trend_of_groups_starts_with_the_first_complete_group(scene: Scene) -> None:
    scene.story(f"0/A {2 * DAY_S}/B {2 * DAY_S + 5}/C")
    funnel_id = scene.funnel(step("A", "B", mode="all_of"), "C")
    trend = scene.report(funnel_id, "trend")
    assert trend["data"][0]["from"] == scene.at(2 * DAY_S)[:10] + "T00:00:00.000Z"
    assert trend["data"][0]["completed"] == 1


def test_a_trend_includes_a_pause_of_a_year(scene: Scene) -> None:
    starting(scene, "2024-11-29T10:00:00+00:00")
    attempts_every(scene, 364 * DAY_S, 2, completed=0)
    trend = scene.report(scene.attempts("A", "B"), "trend", interval="month")
    assert column(trend["data"], "entered")[:13] == [1, *[0] * 11, 1]


@cases(("days", "chosen"), [(2_000, "day"), (2_001, "week"), (14_001, "month")])
def test_a_trend_without_an_interval_chooses_one_that_fits(
    scene: Scene, days: int, chosen: str
) -> None:
    starting(scene, "1985-01-01T00:00:00+00:00")
    scene.story("0/A 10/B", attempt="a1")
    period = scene.period(0, days * DAY_S)
    funnel_id = scene.attempts("A", "B")
    trend = scene.report(funnel_id, "trend", **period)
    assert (trend["interval"], sum(column(trend["data"], "completed"))) == (chosen, 1)
    if chosen != "day":
        assert refused(scene, funnel_id, "trend", interval="day", **period) == ["interval"]


def test_a_trend_of_a_long_history_chooses_its_interval(scene: Scene) -> None:
    starting(scene, "2019-01-01T00:00:00+00:00")
    attempts_every(scene, 700 * DAY_S, 4, completed=0)
    trend = scene.report(scene.attempts("A", "B"), "trend")
    assert (trend["interval"], sum(column(trend["data"], "entered"))) == ("week", 4)


def test_a_trend_refuses_entries_that_span_too_many_buckets(scene: Scene) -> None:
    attempts_every(scene, 90 * DAY_S, 2, completed=0)
    funnel_id = scene.attempts("A", "B")
    assert refused(scene, funnel_id, "trend", interval="hour") == ["interval"]


# Timing


def test_timing_is_exact_for_each_pair_of_steps(scene: Scene) -> None:
    for number, (second, third) in enumerate([(10, 20), (20, 60), (30, None), (60, 4000)]):
        scene.story(f"0/A {second}/B" + (f" {third}/C" if third else ""), attempt=f"a{number}")
    funnel_id = scene.attempts("A", "B", "C", conversionWindowSeconds=DAY_S)
    record = scene.report(funnel_id, "timing", **{"from": 1, "to": 3})
    first, second = record["steps"]
    assert pick(first, "from", "to", "units") == (1, 2, 4)
    figures = ("min", "p25", "median", "p75", "max", "mean")
    seconds = [round(first[f"{name}Minutes"] * 60, 6) for name in figures]
    assert seconds == [10, 17.5, 25, 37.5, 60, 30]
    assert (second["units"], record["overall"]["units"], record["pair"]["units"]) == (3, 3, 3)
    assert record["pair"] == record["overall"]
    bars = [(row["fromMinutes"] * 60, row["units"]) for row in first["histogram"]]
    assert bars == [(10, 1), (20, 1), (30, 1), (60, 1)]
    assert sum(column(second["histogram"], "units")) == 3
    total = scene.results(funnel_id)["aggregate"]
    assert record["overall"]["medianMinutes"] == total["medianCompletionMinutes"]
    equal = scene.report(funnel_id, "timing", binSeconds=4)["steps"][0]["histogram"]
    bars = [(row["fromMinutes"] * 60, row["toMinutes"] and row["units"]) for row in equal]
    assert bars[:3] == [(8, 1), (12, 0), (16, 0)]
    assert (bars[-1], equal[-1]["units"], len(bars)) == ((48, None), 1, 11)


def test_timing_without_units_has_nulls(scene: Scene) -> None:
    scene.story("0/A")
    record = scene.report(scene.attempts("A", "B"), "timing")
    assert pick(record["overall"], "units", "medianMinutes", "histogram") == (0, None, [])
    assert record["pair"] is None


@cases(
    ("query", "field"),
    [
        ({"from": 1}, "to"),
        ({"to": 2}, "from"),
        ({"from": 2, "to": 2}, "to"),
        ({"from": 1, "to": 3}, "to"),
        ({"from": 0}, "from"),
    ],
)
def test_timing_refuses_an_invalid_pair_of_steps(
    scene: Scene, query: dict[str, int], field: str
) -> None:
    assert refused(scene, scene.attempts("A", "B"), "timing", **query) == [field]


# Next


def test_next_events_show_what_stopped_units_did(scene: Scene) -> None:
    scene.story("0/A 10/help 20/help 30/B", attempt="went on")
    scene.story("0/A 10/help 20/help 30/leave", attempt="one")
    scene.story("0/A 5/leave", attempt="two")
    scene.story("0/A", attempt="three")
    scene.story("0/A 4000/leave", attempt="after the window")
    funnel_id = scene.attempts("A", "B")
    record = scene.report(funnel_id, "next", step=1)
    assert pick(record, "step", "stopped", "silent") == (1, 4, 2)
    assert record["data"] == [
        {"type": "Event", "name": "leave", "units": 2, "events": 2, "first": 1, "share": 0.5},
        {"type": "Event", "name": "help", "units": 1, "events": 2, "first": 1, "share": 0.25},
    ]
    assert scene.report(funnel_id, "next", step=1, outcome="pending")["stopped"] == 0
    assert len(scene.report(funnel_id, "next", step=1, pageSize=1)["data"]) == 1


def test_next_events_can_follow_the_visitors_of_attempts(scene: Scene) -> None:
    scene.story("0/A", visitor="ann", attempt="one")
    scene.story("10/help 20/leave", visitor="ann", attempt=None)
    scene.story("0/A 20/B", visitor="bob", attempt="two")
    scene.story("30/help", visitor="bob", attempt=None)
    funnel_id = scene.attempts("A", "B")
    assert scene.report(funnel_id, "next", step=1)["silent"] == 1
    record = scene.report(funnel_id, "next", step=1, of="visitor")
    assert pick(record, "stopped", "silent") == (1, 0)
    rows = [pick(row, "name", "units", "first") for row in record["data"]]
    assert rows == [("help", 1, 1), ("leave", 1, 0)]


def test_next_events_of_visitors_include_every_kind_of_event(scene: Scene) -> None:
    scene.track([scene.item(0, "A"), scene.pageview(5, "/help")])
    record = scene.report(scene.funnel("A", "B"), "next", step=1)
    [row] = record["data"]
    assert pick(row, "type", "name", "units") == ("Pageview", "/help", 1)


def test_next_events_reject_the_last_step(scene: Scene) -> None:
    funnel_id = scene.attempts("A", "B")
    assert refused(scene, funnel_id, "next", step=2) == ["step"]
    assert refused(scene, funnel_id, "next") == ["step"]
    assert refused(scene, funnel_id, "next", step=1, outcome="completed") == ["outcome"]


def test_times_are_utc(scene: Scene) -> None:
    starting(scene, "2026-03-02T10:00:00+00:00")
    scene.story("0/A")
    record = scene.report(scene.attempts("A", "B"), "trend", interval="day")
    assert datetime.fromisoformat(record["data"][0]["from"]).tzinfo == UTC


def test_a_day_that_a_time_zone_skipped_has_no_bucket(scene: Scene) -> None:
    """Samoa crossed the date line: 29 December 2011 was followed by the 31st."""
    starting(scene, "2011-12-29T12:00:00-10:00")
    scene.story(f"0/A {DAY_S}/C", attempt="a")
    scene.story(f"{DAY_S}/A", attempt="b")
    period = scene.period(0, DAY_S + 1)
    record = scene.report(scene.attempts("A", "B"), "trend", timezone="Pacific/Apia", **period)
    buckets = [(bucket["from"][:13], bucket["entered"]) for bucket in record["data"]]
    assert buckets[:2] == [("2011-12-29T10", 1), ("2011-12-30T10", 1)]


@cases(("name", "seconds"), product(("startAt", "endAt"), (1, 1_763_769_600, 99_999_999_999)))
def test_a_period_in_seconds_is_refused(scene: Scene, name: str, seconds: int) -> None:
    scene.story("0/A")
    funnel_id = scene.attempts("A", "B")
    period = {"startAt": scene.at(0), "endAt": scene.at(DAY_S), name: seconds}
    for what in ("results", "trend"):
        answer = scene.request(funnel_id, what, **period)
        assert faults(answer, 400) == [f"{name} looks_like_seconds"]
        assert str(seconds * 1000) in answer.json()["errors"][0]["message"]


def test_a_period_can_start_at_the_first_millisecond_of_1970(scene: Scene) -> None:
    scene.story("0/A")
    period = {"startAt": 0, "endAt": scene.at(DAY_S)}
    assert scene.results(scene.attempts("A", "B"), **period)["aggregate"]["entered"] == 1
