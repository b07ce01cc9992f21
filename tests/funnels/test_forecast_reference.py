"""The reference's forecasts: small examples calculated by hand, and the ten sets.

Times are in days where a name says so. A course is written as the days of its steps.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.funnels.definitions import resolved
from tests.funnels.forecast_sets import LOG, SETS, ForecastSet, measure
from tests.funnels.reference import History
from tests.funnels.reference.forecast import (
    DAY_MS,
    Chances,
    Course,
    Estimate,
    Forecaster,
    ForecastQuery,
    Group,
    Ratio,
    Record,
    bounds,
    quantiles,
    unit_at,
)
from tests.funnels.reference.forecast import Chance as Shares
from tests.funnels.reference.report import aggregate, read_units

BY_NAME = {each.name: each for each in SETS}


def course(unit: Any, *days: float, excluded: float | None = None, cohort: Any = None) -> Course:
    excluded_ms = None if excluded is None else round(excluded * DAY_MS)
    return Course(unit, tuple(round(day * DAY_MS) for day in days), excluded_ms, cohort)


def question(
    now: float, start: float | None, end: float | None = None, **more: Any
) -> ForecastQuery:
    """About two steps with a window of 7 days, unless `more` says otherwise."""
    return ForecastQuery(
        **{
            "steps": 2,
            "window_ms": 7 * DAY_MS,
            "now_ms": round(now * DAY_MS),
            "start_ms": None if start is None else round(start * DAY_MS),
            "end_ms": None if end is None else round(end * DAY_MS),
        }
        | more
    )


def of_ages(*groups: tuple[int, tuple[int, ...]]) -> list[Course]:
    """History units with an entry at 0: how many, and the times of their later steps in ms."""
    return [
        Course((number, position), (0, *ages))
        for position, (count, ages) in enumerate(groups)
        for number in range(count)
    ]


QUERY = ForecastQuery(steps=2, window_ms=100, now_ms=0, start_ms=0)

# -- Parts and chances --------------------------------------------------------------------------


def test_parts_hold_equally_many_times() -> None:
    assert quantiles([*range(80)]) == [*range(2, 80, 2)]
    assert quantiles([10, 20, 30, 40]) == [20, 30, 40]
    assert quantiles([5, 5, 5]) == [5]
    assert quantiles([7]) == quantiles([]) == []


def test_the_age_of_a_part_is_its_middle() -> None:
    chances = Chances(of_ages((1, (10,)), (1, (20,)), (1, (30,)), (1, (40,))), QUERY)
    assert chances.middles_ms == [10, 25, 35, 70]
    assert [chances.part(age) for age in (0, 19, 20, 39, 40, 100)] == [0, 0, 1, 2, 3, 3]


def test_a_chance_is_the_share_of_units_that_were_there_at_that_age() -> None:
    """20 units complete at 10, 20 at 30, 20 never: parts from 0, 10 and 30."""
    chances = Chances(of_ages((20, (10,)), (20, (30,)), (20, ())), QUERY)
    assert chances.middles_ms == [5, 20, 65]
    at_all = (40 + 20 + 0) / (60 + 40 + 20)
    shares = [chances.at(1, part) for part in range(3)]
    assert [each and (each.m, each.p) for each in shares] == [
        (60, pytest.approx((40 + at_all) / 61)),
        (40, pytest.approx((20 + at_all) / 41)),
        (20, pytest.approx((0 + at_all) / 21)),
    ]


def test_excluded_units_were_there_until_their_exclusion() -> None:
    history = of_ages((30, (10,)))
    history += [Course(number, (0,), excluded_ms=40) for number in range(30)]
    chances = Chances(history, QUERY)
    assert chances.middles_ms == [5, 55]
    first = chances.at(1, 0)
    assert first is not None
    assert (first.m, first.p, first.x) == (60, 0.5, 0.5)
    assert chances.cells[1].units == [60, 0]  # all 30 were excluded before an age of 55


def test_small_parts_are_pooled_and_each_unit_is_evidence_once() -> None:
    """10 units complete at 10, and 15 never. The second part has 15 units, so the first is added:
    25 units, 40 pairs of unit and part, of which 10 completed.
    """
    chances = Chances(of_ages((10, (10,)), (15, ())), QUERY)
    pooled = chances.at(1, 1)
    assert pooled is not None
    assert pooled.m == 25
    assert pooled.p == pytest.approx((25 * 10 / 40 + 10 / 40) / 26)


def test_the_number_of_steps_is_never_pooled() -> None:
    """19 units reach step 2 and many wait before it: nothing is known of units with two steps."""
    history = of_ages((19, (10, 90)), (300, ()))
    chances = Chances(history, replace(QUERY, steps=3))
    assert chances.at(1, 0) is not None
    assert chances.at(2, 0) is None


def test_an_earlier_step_counts_units_that_reach_it() -> None:
    history = of_ages((20, (10,)), (20, (10, 50)), (20, ()))
    query = replace(QUERY, steps=3, step=2)
    chance = Chances(history, query).at(1, 0)
    assert chance is not None
    assert chance.m == 60
    assert chance.p == pytest.approx((40 + 40 / (60 + 2 * 20)) / 61, abs=0.01)


# -- The ratio -----------------------------------------------------------------------------------


def test_the_spread_of_completions_alone() -> None:
    """3 of 4 completed, and 6 more are open with p = 1/2 from 19 units: 6 of 10, variance
    (6/4 + 36/4/20) / 100.
    """
    ratio, group = Ratio(3, 4), Group(Shares(0.5, 0, 19), pending=6)
    ratio.add(group)
    assert ratio.rate == 0.6
    assert ratio.variance(group) == pytest.approx((1.5 + 0.45) / 100)


def test_the_spread_with_exclusions() -> None:
    """Two pending units with p = 1/2 and x = 1/4: (3 + 1) / (5 + 1.5) = 8/13. An outcome's variance
    is 1/4 + 3/16 r^2 - 1/4 r; two units and their shares from 19 units have 2 + 4/20 of it.
    """
    ratio, group = Ratio(3, 5), Group(Shares(0.5, 0.25, 19), pending=2)
    ratio.add(group)
    rate = 8 / 13
    assert ratio.rate == pytest.approx(rate)
    outcome = 1 / 4 + 3 / 16 * rate**2 - 1 / 4 * rate
    assert ratio.variance(group) == pytest.approx(2.2 * outcome / 6.5**2)


def test_excluded_visitors_who_may_complete_add_to_both_sides() -> None:
    """One excluded visitor with p = 1/2 beside 1 of 2: 1.5 / 2.5. A completion counts 0.4."""
    ratio, group = Ratio(1, 2), Group(Shares(0.5, 0.25, 19), excluded=1)
    ratio.add(group)
    assert ratio.rate == 0.6
    assert ratio.variance(group) == pytest.approx(0.16 * 0.25 * (1 + 1 / 20) / 6.25)


# -- Units ---------------------------------------------------------------------------------------


def test_an_open_visitor_has_the_chance_of_the_furthest_open_entry() -> None:
    """The entry on day 0 counts and is over; those of days 8 and 9 are open."""
    query = question(10, 0, steps=3, of_visitors=True)
    over, first, second = course("v", 0, 1), course("v", 8), course("v", 9)
    unit = unit_at([over, first, second], query)
    assert (unit.counted, unit.waiting) == (over, first)
    assert unit_at([over, first, course("v", 9, 9.5)], query).waiting == course("v", 9, 9.5)
    assert unit_at([course("v", 0, 1, 2), first], query).waiting is None


def test_an_excluded_visitor_may_be_open() -> None:
    query = question(10, 0, steps=3, of_visitors=True)
    excluded = course("v", 4, 5, excluded=6)
    unit = unit_at([excluded, course("v", 9)], query)
    assert unit.is_excluded
    assert unit.waiting == course("v", 9)
    won = unit_at([course("w", 4, 5, 6)], query)
    assert bounds([unit, won], query) == (1 / 2, 1.0)


@pytest.mark.parametrize("name", ["exclusions", "two populations"])
def test_the_past_looks_as_the_report_saw_it(name: str) -> None:
    """Courses are read once, and cut at the time of a question. The reference's report reads only
    the events until then.
    """
    chosen = BY_NAME[name]
    day_0_ms = chosen.now_ms - 60 * DAY_MS
    history = History(tuple(event for event in chosen.events if day_0_ms <= event.at_ms))
    cut = replace(chosen, make=lambda: list(history.events))
    record = Record(cut.courses)
    excluded_and_open = 0
    for day in (7.5, 14, 21, 28.5, 40.25):
        start_ms, now_ms = day_0_ms + round((day - 7) * DAY_MS), day_0_ms + round(day * DAY_MS)
        units = read_units(history, chosen.definition, ["site_1"], now_ms)
        report = aggregate(units, units.counted(start_ms, None), now_ms)
        query = replace(chosen.question(), now_ms=now_ms, start_ms=start_ms)
        own = record.units(start_ms, None, query)
        assert report["entered"] == len(own)
        assert report["excluded"] == sum(unit.is_excluded for unit in own)
        assert report["completed"] == sum(unit.has_reached(query.steps) for unit in own)
        lower, upper = bounds(own, replace(query, has_exclusions=False))
        assert report["finalRate"] == {"lower": round(lower, 4), "upper": round(upper, 4)}
        excluded_and_open += sum(unit.is_excluded and unit.waiting is not None for unit in own)
    assert bool(excluded_and_open) == (name == "exclusions")


# -- The forecast --------------------------------------------------------------------------------


def regular(days: int, per_day: int = 10, cohort: Any = None) -> list[Course]:
    """Units that enter at noon; half of them complete after a day."""
    return [
        course((day, number, cohort), day + 0.5, *[day + 1.5] * (number % 2), cohort=cohort)
        for day in range(days)
        for number in range(per_day)
    ]


def test_a_regular_funnel() -> None:
    """60 days of history before day 93. On each day, the units of the last 3 days are selected:
    30, of which 10 have completed. The 5 of the last 12 hours and the 15 who never will are open.
    """
    answer = Forecaster(regular(200), question(100, 97)).answer()
    assert answer is not None
    assert answer["history"] == {
        "units": 600,
        "from": 33 * DAY_MS,
        "until": 93 * DAY_MS,
        "ofCohort": False,
    }
    # One cut, at a day. Before it, 600 units of whom 300 complete; after it, 300 who do not.
    young = (300 + 300 / 900) / 601
    old = (300 / 900) / 301
    rate = (10 + 10 * young + 10 * old) / 30
    assert answer["rate"] == pytest.approx(rate)
    assert answer["completed"] == pytest.approx(30 * rate)
    assert answer["replays"] == 54
    assert answer["meanError"] == pytest.approx(100 * (rate - 0.5), abs=0.01)
    assert answer["heldShare"] == 1


def test_there_is_no_forecast_without_a_window() -> None:
    query = question(100, 97, window_ms=None)
    assert Forecaster(regular(200), query).answer() == {"reason": "no_window"}


def test_there_is_none_with_too_little_history() -> None:
    too_little = {"reason": "too_little_history"}
    # 49 units in the 60 days before day 93, then 50.
    few = [each for each in regular(200, 1) if each.entry_ms >= 44 * DAY_MS]
    assert Forecaster(few, question(100, 97)).answer() == too_little
    # All is there but replays: a window of 51 days has 10 that settled, one of 52 days has 9.
    query = question(300, 297, window_ms=52 * DAY_MS)
    assert Forecaster(regular(300), query).answer() == too_little
    answer = Forecaster(regular(300), replace(query, window_ms=51 * DAY_MS)).answer()
    assert answer is not None
    assert answer["replays"] == 10


def test_nothing_is_forecast_if_no_unit_is_open() -> None:
    assert Forecaster(regular(200), question(100, 80, 92)).answer() is None


@pytest.mark.parametrize(("end", "first"), [(None, 7), (98, 5), (94, 1)])
def test_a_replay_needs_a_truth_that_is_known(end: float | None, first: int) -> None:
    forecaster = Forecaster(regular(200), question(100, 90, end))
    assert forecaster.replays()[0].days == first


def test_a_replay_without_an_open_unit_does_not_count() -> None:
    """Nobody enters on days 50 to 59, so no unit is open on the replay of day 60."""
    courses = [each for each in regular(200) if not 50 <= each.entry_ms / DAY_MS < 60]
    forecaster = Forecaster(courses, question(100, 90))
    days = {replay.days for replay in forecaster.replays()}
    assert 100 - 60 not in days
    assert 100 - 61 in days


def test_units_without_a_chance_widen_the_interval() -> None:
    """Of 30 units that entered, one has two steps, and no unit before it ever had exactly two."""
    query = question(100, 97, steps=3)
    courses = [
        replace(each, done_ms=(*each.done_ms, each.done_ms[-1])) if len(each.done_ms) > 1 else each
        for each in regular(100)
    ]
    known = Forecaster(courses, query).estimate(0)
    courses[-1] = replace(courses[-1], done_ms=courses[-1].done_ms[:2])
    unknown = Forecaster(courses, query).estimate(0)
    assert known is not None
    assert unknown is not None
    assert (known.spare, unknown.spare) == (0, 0)  # its second step is tomorrow
    courses.append(course("new", 99, 99.1))
    unknown = Forecaster(courses, query).estimate(0)
    assert unknown is not None
    assert unknown.eligible == 31
    assert unknown.spare == 1 / 31
    assert unknown.rate == pytest.approx(known.rate * 30 / 31)


class Calibrated(Forecaster):
    """A forecaster whose forecasts are 0.5 with a plain spread of 0.01, and whose truths differ by
    1, 2, 3... spreads in the order of the days.
    """

    def _estimate(self, days: int) -> Estimate | None:
        return Estimate(0.5, 0.01, 0.0, 0.4, 0.585, 0.4, 100, 50, 50.0, 100, 0, 0, False)

    def _truth(self, days: int) -> float | None:
        return 0.5 + 0.01 * (days - 6)


def test_the_interval_comes_from_the_errors_of_replays() -> None:
    """54 replays on days 7 to 60, with errors of 1 to 54 spreads: ceil(0.8 * 55) is 44, so the
    44th counts. Both sides are cut to the certain bounds.
    """
    forecaster = Calibrated([], question(100, 97))
    assert len(forecaster.replays()) == 54
    assert forecaster.interval(0) == (0.4, 0.585)
    # Ten replays on days 51 to 60: the 9th, cut above.
    query = replace(forecaster.question, window_ms=51 * DAY_MS)
    forecaster = Calibrated([], query)
    assert [replay.days for replay in forecaster.replays()] == [*range(51, 61)]
    assert forecaster.interval(0) == (pytest.approx(0.4), pytest.approx(0.585))


def test_q_is_the_ninth_of_ten_errors() -> None:
    class Small(Calibrated):
        def _truth(self, days: int) -> float | None:
            return 0.5 + 0.001 * (days - 50)

    forecaster = Small([], question(100, 97, window_ms=51 * DAY_MS))
    assert forecaster.interval(0) == (pytest.approx(0.491), pytest.approx(0.509))


def test_cohorts_use_their_own_history_if_it_is_large_enough() -> None:
    """Of 60 days, 4 units of a day are 240, and 3 are 180."""
    courses = regular(100, 4, "large") + regular(100, 3, "small")
    large = Forecaster(courses, question(100, 90, cohort="large")).answer()
    small = Forecaster(courses, question(100, 90, cohort="small")).answer()
    assert large is not None
    assert small is not None
    assert (large["history"]["units"], large["history"]["ofCohort"]) == (240, True)
    assert (small["history"]["units"], small["history"]["ofCohort"]) == (420, False)
    # 9 days of three are fewer than 30.
    assert Forecaster(courses, question(100, 91, cohort="small")).answer() is None
    assert Forecaster(courses, question(100, 95, is_part=True)).answer() is not None


def test_visitors_count_once_per_span_of_the_history() -> None:
    """The week has 8 whole spans in 60 days. Visitors of each day return in all weeks."""
    courses = [course(day % 7, day + 0.5, *[day + 1.5] * (day % 2)) for day in range(100)]
    query = question(100, 93, of_visitors=True)
    estimate = Forecaster(courses, query).estimate(0)
    assert estimate is not None
    assert (estimate.history, estimate.from_ms) == (56, 37 * DAY_MS)
    # Spans of two weeks have four, of seven visitors each.
    estimate = Forecaster(courses, replace(query, start_ms=86 * DAY_MS)).estimate(0)
    assert estimate is not None
    assert (estimate.history, estimate.from_ms) == (28, 37 * DAY_MS)
    # The period has lasted three days so far.
    early = replace(query, start_ms=97 * DAY_MS, end_ms=104 * DAY_MS)
    estimate = Forecaster(courses, early).estimate(0)
    assert estimate is not None
    assert (estimate.history, estimate.from_ms) == (60, 33 * DAY_MS)


def test_history_is_eight_windows_but_at_most_400_days() -> None:
    courses = regular(1000, 1)
    for window, days in ((7, 60), (10, 80), (60, 400)):
        query = question(900, 890, window_ms=window * DAY_MS)
        estimate = Forecaster(courses, query).estimate(0)
        assert estimate is not None
        assert estimate.history == days


@pytest.mark.parametrize("name", ["few units", "exclusions"])
def test_a_replay_knows_nothing_of_the_days_after_it(name: str) -> None:
    """The interval of 20 days ago is that of a forecaster that has no later event."""
    chosen = BY_NAME[name]
    question, day_ms = chosen.question(), chosen.now_ms - 20 * DAY_MS
    known = [each.seen_at(day_ms) for each in chosen.courses if each.entry_ms <= day_ms]
    then = Forecaster(known, question.shifted(20))
    now = Forecaster(chosen.courses, question)
    assert now.interval(20) == then.interval(0)
    assert now.estimate(20) == then.estimate(0)


# -- The sets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", SETS, ids=BY_NAME)
def test_the_service_accepts_the_definitions(each: ForecastSet) -> None:
    resolved(each.definition)


def test_few_units_have_a_forecast() -> None:
    answer = BY_NAME["few units"].forecaster().answer()
    assert answer is not None
    assert answer["history"]["units"] == 212
    assert answer["replays"] == 54
    assert answer["low"] < answer["rate"] < answer["high"]


def reaches_the_aim(each: ForecastSet) -> bool:
    figures = measure(each)
    assert figures.error_unripe is not None
    assert figures.naive_unripe is not None
    assert figures.inside is not None
    return (
        figures.error_unripe <= figures.naive_unripe / 3
        and 0.65 <= figures.inside <= 0.9
        and figures.unripe >= 40
    )


@pytest.mark.full("replays nine sets on 180 days each")
def test_eight_of_ten_sets_reach_the_aim() -> None:
    """All random sets but the demo, whose rate is nearly final at once."""
    simulated = [each for each in SETS if each.name != "receipt"]
    assert [each.name for each in simulated if not reaches_the_aim(each)] == ["demo"]


@pytest.mark.skipif(not LOG.exists(), reason="receipt.csv does not lie beside the repository")
def test_the_receipt_log_has_a_forecast() -> None:
    answer = BY_NAME["receipt"].forecaster().answer()
    assert answer is not None
    assert answer["history"]["units"] == 316
    assert answer["replays"] == 47
