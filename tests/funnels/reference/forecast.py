"""Forecasts where a rate will settle, and replays how earlier forecasts did.

Written from the rules of the forecast alone, before the service had one. It uses only the standard
library, and of a funnel only the runs of its units (`courses_of`). Rates are not rounded.

The rules leave these choices:

 1. Period: at `now` it ends at the earlier of its end and `now`; an entry at `now` itself counts.
    The truth of a replay is the settled rate of these units, so entries after its day do not count.
 2. Shifts: a day has 24 hours, also where the clock changes. Without a start, the start stays open.
 3. Known truth: that of a shifted period is known at a time if its end plus the window is not later
    than that time. The clock decides, not the data, so that no outcome can select replays.
 4. Spans of visitors: they are as long as the period has lasted, and end at `now` - window. Only
    whole spans count. If none fits, there is one, of the period's length up to 400 days.
 5. Period without a start: its length is that from the first entry of the record.
 6. Quantiles: of n sorted times, cut i of N parts is the time with index floor(i n / N), for
    N = min(40, n). Equal cuts are one. A time that equals a cut belongs to the later part.
 7. Middle of a part: the mean of its two cuts, also if it is not whole; the first part begins at 0,
    the last one ends at the window.
 8. Age: a step, completion or exclusion that happened exactly at an age has happened.
 9. m counts each history unit once, also if it had k steps at the ages of several pooled parts.
    The share of pooled parts is over all pairs of unit and part, so young units do not decide it.
10. "All ages of that k" are the middles of all parts. A unit between two middles is not seen there.
11. s is the share of choice 9 over all ages. Without any unit at all ages it does not matter.
12. Several open entries of a visitor: the one with most steps counts, and of those the earliest.
13. x counts for pending units only: other open visitors cannot become excluded.
14. An open visitor who counts as excluded becomes eligible by completing: the denominator gains p.
15. The ratio's variance is linearized at the forecast; completing and being excluded at once is
    impossible, so each group has the covariance -p x as well.
16. Units without a chance add nothing to the rate. `high` adds all of them, `low` none.
17. sd = 0: the error of a replay is 0 if the forecast was exact, else infinite. If q is infinite,
    the interval is that of the certain bounds.
18. A replay counts if the same rules would have given a forecast, apart from the number of replays:
    50 units of history, an open unit, and for a cohort or bucket 30 eligible units.
19. `heldShare` is over the replays that had an interval then, from at least 10 replays before them;
    null if none had. Those replays go back 60 days from their own day, thus 120 days in all.
20. A cohort's history is chosen again on the day of each replay. `ofCohort` says which is in use.
21. `from` and `until` of the history are the limits of its times of entry, not its first and last
    unit. Its units are those of all spans.
22. `completed` is the expected number of completed units.
23. Nothing is forecast if no unit is open, because the rate is known, or if a cohort or bucket has
    fewer than 30 eligible units. The answer is None, without a reason.
24. Step j: a unit succeeds that reaches it and is not excluded at the end. Its certain bounds allow
    for the exclusion of open units that have reached it, if the definition excludes any.
25. A visitor may belong to another cohort when the truth is known; each time, it counts where it
    belongs then.
26. Errors and intervals are compared with a tolerance of 1e-9. Events have no time of arrival
    here, so nothing is said about late ones.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from math import ceil, inf, sqrt
from typing import Any

from tests.funnels.reference.report import Units

DAY_MS = 86_400_000
REPLAYED_DAYS = 60
MIN_REPLAYS = 10
MIN_HISTORY = 50
MIN_COHORT_HISTORY = 200
MIN_EVIDENCE = 20
MIN_ELIGIBLE = 30
MAX_PARTS = 40
NOMINAL = 0.8
_TOLERANCE = 1e-9

ALL: Hashable = object()
"""Instead of a cohort: the units of all cohorts."""


@dataclass(frozen=True, slots=True)
class Course:
    """The progress of a unit after one entry, as far as the record goes.

    done_ms: times at which its steps were completed, the entry first. excluded_ms: time of its
    exclusion. cohort: the values that it entered with.
    """

    unit: Hashable
    done_ms: tuple[int, ...]
    excluded_ms: int | None = None
    cohort: Hashable = None

    @property
    def entry_ms(self) -> int:
        return self.done_ms[0]

    def seen_at(self, at_ms: int) -> "Course":
        """The course as it looked at a time after its entry."""
        if max(self.done_ms[-1], self.excluded_ms or 0) <= at_ms:
            return self
        done_ms = self.done_ms[: bisect_right(self.done_ms, at_ms)]
        is_excluded = self.excluded_ms is not None and self.excluded_ms <= at_ms
        return replace(self, done_ms=done_ms, excluded_ms=self.excluded_ms if is_excluded else None)


@dataclass(frozen=True, slots=True)
class ForecastQuery:
    """The question whose rate is forecast.

    steps: number of required steps of the definition. has_exclusions: whether it excludes units.
    of_visitors: whether a unit may have several entries. cohort: values of one cohort. is_part:
    whether the rate is that of a cohort or of a bucket, with the bucket as the period. step: the
    last step, unless the rate is that of an earlier one.
    """

    steps: int
    window_ms: int | None
    now_ms: int
    start_ms: int | None
    end_ms: int | None = None
    of_visitors: bool = False
    has_exclusions: bool = False
    cohort: Hashable = ALL
    is_part: bool = False
    step: int | None = None

    @property
    def until_ms(self) -> int:
        """The end of the period as far as it has passed, in which entries count."""
        return self.now_ms if self.end_ms is None else min(self.end_ms, self.now_ms)

    @property
    def goal(self) -> int:
        return self.steps if self.step is None else self.step

    def shifted(self, days: int) -> "ForecastQuery":
        shift_ms = days * DAY_MS
        return replace(
            self,
            now_ms=self.now_ms - shift_ms,
            start_ms=None if self.start_ms is None else self.start_ms - shift_ms,
            end_ms=None if self.end_ms is None else self.end_ms - shift_ms,
        )


def courses_of(units: Units) -> list[Course]:
    """All entries of all units of a definition that meet the conditions of the request."""
    return [
        Course(
            (unit, run.entry.id) if units.funnel.counts_runs else unit,
            tuple(run.done_ms),
            run.excluded_by.last_ms if run.excluded_by is not None else None,
            run.values,
        )
        for unit, events in units.by_unit.items()
        for run in units.runs(events)
        if run.passes
    ]


# -- The units of a period ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnitAt:
    """A unit at one time. counted: the entry that counts. waiting: the open entry whose chances the
    unit has; None if the unit is not open.
    """

    counted: Course
    waiting: Course | None

    @property
    def is_excluded(self) -> bool:
        return self.counted.excluded_ms is not None

    def has_reached(self, step: int) -> bool:
        return not self.is_excluded and len(self.counted.done_ms) >= step


class Record:
    """All courses, by time of entry."""

    def __init__(self, courses: Iterable[Course]) -> None:
        self._courses = sorted(courses, key=lambda course: course.entry_ms)
        self._entries_ms = [course.entry_ms for course in self._courses]

    @property
    def first_ms(self) -> int | None:
        return self._entries_ms[0] if self._entries_ms else None

    def units(
        self, start_ms: int | None, end_ms: int | None, question: ForecastQuery
    ) -> list[UnitAt]:
        """The units of the question's cohort that entered from `start_ms` to before `end_ms`, as
        they look at the time of the question.
        """
        first = 0 if start_ms is None else bisect_left(self._entries_ms, start_ms)
        last = bisect_right(self._entries_ms, question.now_ms)
        if end_ms is not None:
            last = min(last, bisect_left(self._entries_ms, end_ms))
        entries: dict[Hashable, list[Course]] = {}
        for course in self._courses[first:last]:
            entries.setdefault(course.unit, []).append(course.seen_at(question.now_ms))
        units = [unit_at(own, question) for own in entries.values()]
        return [unit for unit in units if question.cohort in (ALL, unit.counted.cohort)]


def unit_at(entries: Sequence[Course], question: ForecastQuery) -> UnitAt:
    """A unit by its entries in the period, earliest first."""
    # `max` returns the first of equal entries
    counted = max(entries, key=lambda entry: (len(entry.done_ms), entry.excluded_ms is None))
    waiting = [entry for entry in entries if is_open(entry, question)]
    if len(counted.done_ms) == question.steps or not waiting:
        return UnitAt(counted, None)
    if counted in waiting:
        return UnitAt(counted, counted)
    return UnitAt(counted, max(waiting, key=lambda entry: len(entry.done_ms)))


def is_open(entry: Course, question: ForecastQuery) -> bool:
    return (
        len(entry.done_ms) < question.steps
        and entry.excluded_ms is None
        and (question.window_ms is None or question.now_ms <= entry.entry_ms + question.window_ms)
    )


# -- Chances ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chance:
    """p and x of the rules: the shares that succeed and that are excluded. m: number of history
    units that they are from.
    """

    p: float
    x: float
    m: int


@dataclass
class Cells:
    """The history units with a certain number of steps, by part. successes, excluded: those units
    that succeeded or were excluded later. firsts, lasts: the first and last part at whose age each
    unit had this number of steps, sorted.
    """

    units: list[int]
    successes: list[int]
    excluded: list[int]
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    def distinct(self, first: int, last: int) -> int:
        """Number of units that had this number of steps at the age of any of these parts."""
        return bisect_right(self.firsts, last) - bisect_left(self.lasts, first)

    def shares(self, first: int, last: int) -> tuple[float, float]:
        parts = slice(first, last + 1)
        units = sum(self.units[parts])
        return sum(self.successes[parts]) / units, sum(self.excluded[parts]) / units


class Chances:
    """Chances by number of steps and age, from settled units.

    history: the units. steps, goal: those of the question.
    """

    def __init__(self, history: Sequence[Course], question: ForecastQuery) -> None:
        assert question.window_ms is not None
        self.steps, self.goal = question.steps, question.goal
        times_ms = sorted(
            at_ms - course.entry_ms for course in history for at_ms in course.done_ms[1:]
        )
        self.cuts_ms = quantiles(times_ms)
        limits = [0, *self.cuts_ms, question.window_ms]
        self.middles_ms = [(low + high) / 2 for low, high in pairwise(limits)]
        self.cells = {
            reached: Cells(*([0] * len(self.middles_ms) for _ in range(3)))
            for reached in range(1, self.steps)
        }
        for course in history:
            self._add(course)
        self.at = cache(self._at)

    def _add(self, course: Course) -> None:
        succeeds = len(course.done_ms) >= self.goal and course.excluded_ms is None
        end_ms = inf if course.excluded_ms is None else course.excluded_ms
        limits = [*course.done_ms, end_ms]
        for reached, (from_ms, to_ms) in enumerate(pairwise(limits), start=1):
            if reached == self.steps:
                return
            first = bisect_left(self.middles_ms, from_ms - course.entry_ms)
            last = bisect_left(self.middles_ms, to_ms - course.entry_ms) - 1
            cells = self.cells[reached]
            for part in range(first, last + 1):
                cells.units[part] += 1
                cells.successes[part] += succeeds
                cells.excluded[part] += course.excluded_ms is not None
            if first <= last:
                insort(cells.firsts, first)
                insort(cells.lasts, last)

    def part(self, age_ms: int) -> int:
        return bisect_right(self.cuts_ms, age_ms)

    def _at(self, reached: int, part: int) -> Chance | None:
        """The chance of units with this number of steps at an age in this part. None if too few
        history units had this number of steps at any age.
        """
        cells, end = self.cells[reached], len(self.middles_ms) - 1
        if cells.distinct(0, end) < MIN_EVIDENCE:
            return None
        first = last = part
        while (m := cells.distinct(first, last)) < MIN_EVIDENCE:
            first, last = max(first - 1, 0), min(last + 1, end)
        success, excluded = cells.shares(first, last)
        success_at_all, excluded_at_all = cells.shares(0, end)
        return Chance(
            (m * success + success_at_all) / (m + 1), (m * excluded + excluded_at_all) / (m + 1), m
        )


def quantiles(times: Sequence[int]) -> list[int]:
    """The cuts between at most 40 parts that hold equally many of the sorted times."""
    parts = min(MAX_PARTS, len(times))
    return sorted({times[number * len(times) // parts] for number in range(1, parts)})


# -- The forecast of one day ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """A forecast without its calibration.

    rate: the forecast. sd: the plain spread. spare: what units without a chance may add to the
    rate. lower, upper: the certain bounds. so_far: the rate now. eligible, open: numbers of units.
    completed: expected number of successes. history: number of its units. of_cohort: whether they
    are those of the cohort.
    """

    rate: float
    sd: float
    spare: float
    lower: float
    upper: float
    so_far: float
    eligible: int
    open: int
    completed: float
    history: int
    from_ms: int
    until_ms: int
    of_cohort: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """An earlier forecast and what came of it. days: how many days ago."""

    days: int
    estimate: Estimate
    truth: float

    @property
    def error(self) -> float:
        return abs(self.truth - self.estimate.rate)

    @property
    def scaled_error(self) -> float:
        if self.error < _TOLERANCE:
            return 0.0
        return self.error / self.estimate.sd if self.estimate.sd else inf


class Forecaster:
    """Answers one question on its own day and on all days before."""

    def __init__(self, courses: Iterable[Course], question: ForecastQuery) -> None:
        self.record, self.question = Record(courses), question
        self.estimate = cache(self._estimate)
        self.truth = cache(self._truth)

    def answer(self) -> dict[str, Any] | None:
        """The fields of a forecast, or why there is none. None if there is nothing to forecast."""
        if self.question.window_ms is None:
            return {"reason": "no_window"}
        estimate = self.estimate(0)
        if estimate is None:
            return None
        replays = self.replays()
        interval = self.interval(0)
        if interval is None:
            return {"reason": "too_little_history"}
        held = self.held(replays)
        return {
            "rate": estimate.rate,
            "low": interval[0],
            "high": interval[1],
            "completed": estimate.completed,
            "history": {
                "units": estimate.history,
                "from": estimate.from_ms,
                "until": estimate.until_ms,
                "ofCohort": estimate.of_cohort,
            },
            "replays": len(replays),
            "meanError": 100 * sum(replay.error for replay in replays) / len(replays),
            "heldShare": sum(held) / len(held) if held else None,
        }

    def replays(self, days: int = 0, depth: int = REPLAYED_DAYS) -> list[Replay]:
        """The replays that were possible some days ago, latest first. depth: days to go back."""
        question, known_ms = self.question, self.question.shifted(days).now_ms
        assert question.window_ms is not None
        replays = []
        for earlier in range(days + 1, days + depth + 1):
            if question.shifted(earlier).until_ms + question.window_ms > known_ms:
                continue
            estimate, truth = self.estimate(earlier), self.truth(earlier)
            if estimate is not None and estimate.history >= MIN_HISTORY and truth is not None:
                replays.append(Replay(earlier, estimate, truth))
        return replays

    def interval(self, days: int) -> tuple[float, float] | None:
        """The interval as it was some days ago; None if there was too little history."""
        estimate, replays = self.estimate(days), self.replays(days)
        if estimate is None or estimate.history < MIN_HISTORY or len(replays) < MIN_REPLAYS:
            return None
        errors = sorted(replay.scaled_error for replay in replays)
        q = errors[ceil(NOMINAL * (len(errors) + 1)) - 1]
        if q == inf:
            return estimate.lower, estimate.upper
        low = estimate.rate - q * estimate.sd
        high = estimate.rate + q * estimate.sd + estimate.spare
        return max(low, estimate.lower), min(high, estimate.upper)

    def held(self, replays: Sequence[Replay]) -> list[bool]:
        """Whether the truth was inside the interval, for each replay that had one then."""
        intervals = [(replay.truth, self.interval(replay.days)) for replay in replays]
        return [
            interval[0] - _TOLERANCE <= truth <= interval[1] + _TOLERANCE
            for truth, interval in intervals
            if interval is not None
        ]

    def _truth(self, days: int) -> float | None:
        """The rate at which the units that had entered some days ago settled."""
        then = self.question.shifted(days)
        assert then.window_ms is not None
        later = replace(then, now_ms=then.until_ms + then.window_ms)
        # An entry at the time of the question itself counts, and so it does here.
        end_ms = then.end_ms if then.end_ms is not None else inf
        entered_ms = min(end_ms, then.now_ms + 1)
        units = self.record.units(then.start_ms, int(entered_ms), later)
        eligible = [unit for unit in units if not unit.is_excluded]
        if not eligible:
            return None
        return sum(unit.has_reached(then.goal) for unit in eligible) / len(eligible)

    def _estimate(self, days: int) -> Estimate | None:
        question = self.question.shifted(days)
        units = self.record.units(question.start_ms, question.end_ms, question)
        eligible = [unit for unit in units if not unit.is_excluded]
        waiting = [unit for unit in units if unit.waiting is not None]
        is_part = question.is_part or question.cohort is not ALL
        if not waiting or (is_part and len(eligible) < MIN_ELIGIBLE):
            return None
        spans = list(self._spans(question))
        history = self._history(spans, question)
        of_cohort = question.cohort is not ALL and len(history) >= MIN_COHORT_HISTORY
        if question.cohort is not ALL and not of_cohort:
            history = self._history(spans, replace(question, cohort=ALL))
        chances = Chances(history, question)
        groups, without_chance = grouped(waiting, chances, question)
        counted = [unit for unit in eligible if unit.waiting is None or is_known(unit, question)]
        counted += [unit for unit in without_chance if not unit.is_excluded]
        rate_of = Ratio(sum(unit.has_reached(question.goal) for unit in counted), len(counted))
        for group in groups:
            rate_of.add(group)
        if rate_of.eligible <= 0 or not eligible:
            return None
        lower, upper = bounds(units, question)
        may_succeed = sum(not unit.has_reached(question.goal) for unit in without_chance)
        return Estimate(
            rate=rate_of.rate,
            sd=sqrt(sum(map(rate_of.variance, groups))),
            spare=may_succeed / rate_of.eligible,
            lower=lower,
            upper=upper,
            so_far=sum(unit.has_reached(question.goal) for unit in eligible) / len(eligible),
            eligible=len(eligible),
            open=len(waiting),
            completed=rate_of.successes,
            history=len(history),
            from_ms=spans[-1][0],
            until_ms=spans[0][1],
            of_cohort=of_cohort,
        )

    def _spans(self, question: ForecastQuery) -> Iterator[tuple[int, int]]:
        """The spans of the history, latest first. Of attempts there is one."""
        assert question.window_ms is not None
        until_ms = question.now_ms - question.window_ms
        reach_ms = min(max(60 * DAY_MS, 8 * question.window_ms), 400 * DAY_MS)
        length_ms = reach_ms
        if question.of_visitors:
            start_ms = question.start_ms
            if start_ms is None:
                start_ms = self.record.first_ms or question.until_ms
            length_ms = min(max(question.until_ms - start_ms, 1), 400 * DAY_MS)
        for number in range(max(reach_ms // length_ms, 1)):
            yield until_ms - (number + 1) * length_ms, until_ms - number * length_ms

    def _history(self, spans: Iterable[tuple[int, int]], question: ForecastQuery) -> list[Course]:
        return [unit.counted for span in spans for unit in self.record.units(*span, question)]


# -- The ratio of successes to eligible units -----------------------------------------------------


@dataclass
class Group:
    """Open units with the same number of steps and part of age, by their effect on the rate.

    pending: eligible, and may be excluded. over: eligible in any case, because the entry that
    counts has ended. excluded: eligible only if they succeed.
    """

    chance: Chance
    pending: int = 0
    over: int = 0
    excluded: int = 0


def is_known(unit: UnitAt, question: ForecastQuery) -> bool:
    """Whether an open unit has succeeded already, by an entry that has ended and counts."""
    return unit.waiting is not unit.counted and unit.has_reached(question.goal)


def grouped(
    waiting: Iterable[UnitAt], chances: Chances, question: ForecastQuery
) -> tuple[list[Group], list[UnitAt]]:
    """The open units that may yet succeed or fail: by their chance, and those that have none."""
    groups: dict[tuple[int, int], Group] = {}
    without_chance = []
    for unit in waiting:
        assert unit.waiting is not None
        if is_known(unit, question):
            continue
        reached = len(unit.waiting.done_ms)
        part = chances.part(question.now_ms - unit.waiting.entry_ms)
        chance = chances.at(reached, part)
        if chance is None:
            without_chance.append(unit)
            continue
        group = groups.setdefault((reached, part), Group(chance))
        if unit.waiting is unit.counted:
            group.pending += 1
        elif unit.is_excluded:
            group.excluded += 1
        else:
            group.over += 1
    return list(groups.values()), without_chance


@dataclass
class Ratio:
    """Expected successes and eligible units. Both begin with the units that are not open."""

    successes: float
    eligible: float

    @property
    def rate(self) -> float:
        return self.successes / self.eligible

    def add(self, group: Group) -> None:
        p, x = group.chance.p, group.chance.x
        self.successes += p * (group.pending + group.over + group.excluded)
        self.eligible += group.pending * (1 - x) + group.over + group.excluded * p

    def variance(self, group: Group) -> float:
        """The part of the rate's variance that comes from a group: from the outcomes of its units,
        and from its shares, which are from m units.

        A success moves the rate by 1 / eligible, less what it adds to the denominator. An exclusion
        moves it by rate / eligible.
        """
        p, x, m = group.chance.p, group.chance.x, group.chance.m

        def spread(by_success: float, by_exclusion: float) -> float:
            """The variance of one outcome that counts this much."""
            apart = by_success**2 * p * (1 - p) + by_exclusion**2 * x * (1 - x)
            return apart - 2 * by_success * by_exclusion * p * x

        outcomes = (
            group.pending * spread(1, self.rate)
            + group.over * spread(1, 0)
            + group.excluded * spread(1 - self.rate, 0)
        )
        successes = group.pending + group.over + group.excluded * (1 - self.rate)
        shares = spread(successes, group.pending * self.rate) / (m + 1)
        return (outcomes + shares) / self.eligible**2


def bounds(units: Sequence[UnitAt], question: ForecastQuery) -> tuple[float, float]:
    """The rates that are certain not to be passed."""
    reached = [unit for unit in units if unit.has_reached(question.goal)]
    waiting = [unit for unit in units if unit.waiting is not None]
    whole = sum(not unit.is_excluded for unit in units) + sum(unit.is_excluded for unit in waiting)
    may_succeed = sum(not unit.has_reached(question.goal) for unit in waiting)
    may_fail = sum(unit.waiting is not None for unit in reached) if question.has_exclusions else 0
    lowest = (len(reached) - may_fail) / (whole - may_fail) if whole > may_fail else 0.0
    return lowest, (len(reached) + may_succeed) / whole
