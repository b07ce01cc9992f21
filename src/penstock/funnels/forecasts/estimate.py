"""Estimates where the rates of a period settle, from the courses of settled units.

Source: forecast rules, "Estimate". Ages and times are in milliseconds. The last axis of an array of
chances has a cell for each number of steps and part of age.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

DAY_MS = 86_400_000
SELECTED = -1
"""The number of the cohorts that the request's cohort filter selects, together."""
EXCLUDED = 0
"""The outcome of excluded units, instead of a number of steps."""
NEVER = 2**62
"""The age at which something happens that never does."""
MIN_HISTORY = 50
MIN_COHORT_HISTORY = 200
MIN_ELIGIBLE = 30
_MIN_EVIDENCE = 20
_MAX_PARTS = 40
_MAX_REACH_MS = 400 * DAY_MS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a funnel. steps: number of required steps. excludes: whether
    units can be excluded. enters_once: whether each unit has one entry.
    """

    steps: int
    window_ms: int
    excludes: bool
    enters_once: bool

    @property
    def reach_ms(self) -> int:
        """Length of the history."""
        return min(max(60 * DAY_MS, 8 * self.window_ms), _MAX_REACH_MS)


@dataclass(frozen=True, slots=True)
class Period:
    """Units that entered at `start_ms` or later, but before `end_ms`, seen at `now_ms`. None sets
    no limit. cohort: number of their cohort, or `SELECTED`; None for all.
    """

    now_ms: int
    start_ms: int | None
    end_ms: int | None
    cohort: int | None = None

    @property
    def until_ms(self) -> int:
        return self.now_ms if self.end_ms is None else min(self.end_ms, self.now_ms)

    def shifted(self, days: int) -> "Period":
        start_ms, end_ms = (
            None if at_ms is None else at_ms - days * DAY_MS
            for at_ms in (self.start_ms, self.end_ms)
        )
        return Period(self.now_ms - days * DAY_MS, start_ms, end_ms, self.cohort)


@dataclass(frozen=True)
class Courses:
    """All entries of units, by time of entry, one element each.

    done: ages at which the steps after the first were completed, a row for each entry. excluded:
    age of its exclusion. unit, cohort: numbers of its unit and its cohort. selected: whether the
    cohort filter selects it. share: the share of all units that these are.
    """

    entry: Ints
    done: Ints
    excluded: Ints
    unit: Ints
    cohort: Ints
    selected: Flags
    share: float = 1.0

    @cached_property
    def outcome(self) -> Ints:
        """The number of steps of each entry in the end, or `EXCLUDED`."""
        reached = 1 + (self.done < NEVER).sum(axis=1)
        return np.where(self.excluded < NEVER, EXCLUDED, reached)

    def of_cohort(self, entries: Ints, cohort: int | None) -> Flags:
        """Whether each of some entries is in a cohort."""
        if cohort is None:
            return np.ones(len(entries), bool)
        return self.selected[entries] if cohort == SELECTED else self.cohort[entries] == cohort

    def part(self, cohort: int) -> "Courses":
        """The entries of a cohort."""
        chosen = self.of_cohort(np.arange(len(self.entry)), cohort)
        names = ("entry", "done", "excluded", "unit", "cohort", "selected")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def between(self, start_ms: int | None, end_ms: int | None, now_ms: int) -> slice:
        """The entries from `start_ms` to before `end_ms` that had happened at a time."""
        first = 0 if start_ms is None else int(np.searchsorted(self.entry, start_ms))
        last = int(np.searchsorted(self.entry, now_ms, "right"))
        if end_ms is not None:
            last = min(last, int(np.searchsorted(self.entry, end_ms)))
        return slice(first, max(first, last))


@dataclass(frozen=True, slots=True)
class Standing:
    """The units of a period at a time, an element each.

    course: the entry that counts. reached: number of its steps. excluded: whether it is excluded.
    waits: whether the unit is open. waiting_reached, waiting_age: number of steps and age of the
    open entry that decides its chances. is_counted: whether that entry also counts.
    """

    course: Ints
    reached: Ints
    excluded: Flags
    waits: Flags
    waiting_reached: Ints
    waiting_age: Ints
    is_counted: Flags


def standing(courses: Courses, shape: Shape, period: Period) -> Standing:
    """Return the units of a period, of its cohort, as they look at its time."""
    span = courses.between(period.start_ms, period.end_ms, period.now_ms)
    entry, unit = courses.entry[span], courses.unit[span]
    age = period.now_ms - entry
    excluded = courses.excluded[span] <= age
    reached = 1 + (courses.done[span] <= age[:, None]).sum(axis=1)
    is_open = (reached < shape.steps) & ~excluded & (age <= shape.window_ms)
    counted = waiting = np.arange(len(entry))
    waits = is_open
    if not shape.enters_once and len(entry):
        counted = _furthest(unit, reached, excluded)
        is_last = reached[counted] == shape.steps
        open_at = np.flatnonzero(is_open)
        furthest = open_at[_furthest(unit[open_at], reached[open_at], excluded[open_at])]
        position = np.searchsorted(unit[counted], unit[furthest])
        waits, waiting = np.zeros(len(counted), bool), counted.copy()
        waits[position], waiting[position] = True, furthest
        waits &= ~is_last
        waiting = np.where(is_open[counted], counted, waiting)
    course = counted + span.start
    units = Standing(
        course,
        reached[counted],
        excluded[counted],
        waits,
        reached[waiting],
        age[waiting],
        counted == waiting,
    )
    if period.cohort is None:
        return units
    return _only(units, courses.of_cohort(course, period.cohort))


def _furthest(unit: Ints, reached: Ints, excluded: Flags) -> Ints:
    """Return the position of the entry of each unit that counts, by unit: the furthest, then one
    that is not excluded, then the earliest. Entries are in order of time.
    """
    highest = reached.max(initial=0)
    order = np.argsort((unit * (highest + 1) + highest - reached) * 2 + excluded, kind="stable")
    ordered = unit[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    chosen: Ints = order[is_first]
    return chosen


def _only(units: Standing, chosen: Flags) -> Standing:
    return Standing(*(getattr(units, name)[chosen] for name in Standing.__slots__))


# -- Chances ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chances:
    """Chances by cell. goals: last steps of the rates, in the first axis of `success`.

    cuts_ms: the ages that divide the parts. success, excluded: shares that succeed and are
    excluded. evidence: number of history units that they are from; 0 for cells without a chance.
    units: number of history units.
    """

    cuts_ms: Ints
    success: Floats
    excluded: Floats
    evidence: Floats
    units: int

    @property
    def parts(self) -> int:
        return len(self.cuts_ms) + 1

    def cell(self, reached: Ints, age: Ints) -> Ints:
        """Return the cells of open units."""
        return (reached - 1) * self.parts + np.searchsorted(self.cuts_ms, age, "right")


def cuts_of(times: Ints) -> Ints:
    """Return the cuts between at most 40 parts that hold equally many of the times."""
    parts = min(_MAX_PARTS, len(times))
    if parts < 2:
        return np.empty(0, np.int64)
    positions = np.arange(1, parts) * len(times) // parts
    return np.unique(np.partition(times, np.unique(positions))[positions])


def chances_of(courses: Courses, history: Ints, shape: Shape, goals: Sequence[int]) -> Chances:
    """Return the chances of open units. history: the entries of settled units."""
    done, outcome = courses.done[history], courses.outcome[history]
    cuts_ms = cuts_of(done[done < NEVER])
    limits = np.concatenate(([0], cuts_ms, [shape.window_ms]))
    middles = (limits[:-1] + limits[1:]) / 2
    parts, waits = len(middles), shape.steps - 1
    # A unit has k steps at the middles from that of its k-th step to that of the next one.
    next_part = np.searchsorted(middles, done)
    first_part = np.zeros_like(next_part)
    first_part[:, 1:] = next_part[:, :-1]
    if shape.excludes:
        end = np.searchsorted(middles, courses.excluded[history])
        next_part = np.minimum(next_part, end[:, None])
    was_there = first_part < next_part
    at = (outcome[:, None] * waits + np.arange(waits)) * (parts + 1)

    def running_counts(part: Ints) -> Ints:
        """Count units by outcome, number of steps and part, with those of earlier parts."""
        size = (shape.steps + 1) * waits * (parts + 1)
        counts = np.bincount((at + part)[was_there], None, size)
        return np.cumsum(counts.reshape(-1, waits, parts + 1), axis=2)

    started_by, ended_by = running_counts(first_part), running_counts(next_part)
    there = (started_by - ended_by)[:, :, :parts].astype(float)
    started = started_by.sum(axis=0)
    ended = ended_by.sum(axis=0)  # before the part: `next_part` is the first without the unit
    # Neighbouring parts on both sides are added until there is enough evidence.
    radius, part = np.arange(parts)[:, None], np.arange(parts)[None, :]
    first, last = np.maximum(part - radius, 0), np.minimum(part + radius, parts - 1)
    distinct = started[:, last] - ended[:, first]
    chosen = np.argmax(distinct >= _MIN_EVIDENCE, axis=1)
    first, last = np.maximum(part - chosen, 0), np.minimum(part + chosen, parts - 1)
    steps = np.arange(waits)[:, None]
    evidence = (started[steps, last] - ended[steps, first]).astype(float)
    evidence[distinct[:, -1].max(axis=1) < _MIN_EVIDENCE] = 0

    def pooled(counts: Floats) -> Floats:
        sums = np.concatenate((np.zeros((waits, 1)), np.cumsum(counts, axis=1)), axis=1)
        difference: Floats = sums[steps, last + 1] - sums[steps, first]
        return difference

    of_all = there.sum(axis=0)
    units, units_at_all = pooled(of_all), of_all.sum(axis=1, keepdims=True)

    def shares(counts: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = pooled(counts) / units
            at_all = counts.sum(axis=1, keepdims=True) / units_at_all
        pooled_share = (evidence * share + at_all) / (evidence + 1)
        return np.where(evidence > 0, pooled_share, 0.0).ravel()

    success = np.array([shares(there[goal:].sum(axis=0)) for goal in goals])
    return Chances(cuts_ms, success, shares(there[EXCLUDED]), evidence.ravel(), len(done))


# -- Rates --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rates:
    """Where the rates of some units settle, an element for each goal. sd: the plain spread. spare:
    what units without a chance may add. lower, upper: the certain bounds. completed: expected
    number of successes.
    """

    rate: Floats
    sd: Floats
    spare: Floats
    lower: Floats
    upper: Floats
    completed: Floats


@dataclass(frozen=True, slots=True)
class Counts:
    """The units of a period, in numbers.

    eligible, excluded: units that are not, and that are excluded. reached: eligible units that
    reached each goal. pending: open units whose entry counts, by cell. over, barred: other open
    units by cell, those that are eligible and have not reached each goal, and those that are
    excluded. may_fail: open units that have reached each goal.
    """

    eligible: int
    reached: Ints
    pending: Ints
    over: Ints
    barred: Ints
    may_fail: Ints


def counts_of(units: Standing, chances: Chances, shape: Shape, goals: Sequence[int]) -> Counts:
    cells = chances.evidence.size
    cell = chances.cell(units.waiting_reached, units.waiting_age)

    def by_cell(chosen: Flags) -> Ints:
        return np.bincount(cell[chosen], None, cells)

    eligible = ~units.excluded
    is_other = units.waits & ~units.is_counted
    over = [
        by_cell(is_other & eligible & (units.reached < goal))
        if not shape.enters_once
        else np.zeros(cells, np.int64)
        for goal in goals
    ]
    return Counts(
        int(eligible.sum()),
        np.array([(eligible & (units.reached >= goal)).sum() for goal in goals]),
        by_cell(units.waits & units.is_counted),
        np.array(over),
        by_cell(is_other & ~eligible),
        np.array([(units.waits & eligible & (units.reached >= goal)).sum() for goal in goals]),
    )


def rates_of(
    counts: Counts, chances: Chances, shape: Shape, goals: Sequence[int], share: float = 1.0
) -> Rates:
    """Forecast rates. share: the share of all units that the calibration has seen; the spread is
    as large as theirs.
    """
    parts, known = chances.parts, chances.evidence > 0
    steps = np.zeros(known.size, np.int64)  # Additional cells have no pending units.
    steps[: (shape.steps - 1) * parts] = np.repeat(np.arange(1, shape.steps), parts)
    have_reached = steps[None, :] >= np.array(goals)[:, None]
    pending, over, barred = counts.pending * known, counts.over * known, counts.barred * known
    p, x, m = chances.success, chances.excluded, chances.evidence
    # Pending units are counted by their chances, even if they have reached the goal.
    successes = counts.reached - (pending * have_reached).sum(axis=1)
    eligible = counts.eligible - pending.sum() - over.sum(axis=1)
    successes = successes + (p * (pending + over + barred)).sum(axis=1)
    eligible = eligible + (pending * (1 - x)).sum() + over.sum(axis=1) + (barred * p).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = successes / eligible
    of_rate = rate[:, None]

    def spread(by_success: Floats | float, by_exclusion: Floats | float) -> Floats:
        apart = by_success**2 * p * (1 - p) + by_exclusion**2 * x * (1 - x)
        return apart - 2 * by_success * by_exclusion * p * x

    outcomes = pending * spread(1.0, of_rate) + over * spread(1.0, 0.0)
    outcomes = outcomes + barred * spread(1 - of_rate, 0.0)
    of_shares = spread(pending + over + barred * (1 - of_rate), pending * of_rate) / (m + 1)
    variance = (outcomes / share + of_shares).sum(axis=1)
    unknown = (counts.pending - pending) * ~have_reached + (counts.over - over)
    may_succeed = (unknown + counts.barred - barred).sum(axis=1)
    waiting = (counts.pending * ~have_reached).sum(axis=1) + (counts.over + counts.barred).sum(
        axis=-1
    )
    whole = counts.eligible + counts.barred.sum()
    may_fail = counts.may_fail if shape.excludes else np.zeros(len(goals))
    with np.errstate(invalid="ignore", divide="ignore"):
        lower = np.where(whole > may_fail, (counts.reached - may_fail) / (whole - may_fail), 0.0)
        return Rates(
            rate,
            np.sqrt(np.maximum(variance, 0)) / eligible,
            may_succeed / eligible,
            lower,
            (counts.reached + waiting) / whole,
            successes,
        )


# -- The history of a day -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class History:
    """The settled units whose courses give chances, and the limits of their times of entry.
    of_cohort: whether they are those of the period's cohort.
    """

    entries: Ints
    from_ms: int
    until_ms: int
    of_cohort: bool


def history_of(courses: Courses, shape: Shape, period: Period) -> History:
    until_ms, length_ms = period.now_ms - shape.window_ms, shape.reach_ms
    if not shape.enters_once:  # The history has spans as long as the period.
        start_ms = period.start_ms
        if start_ms is None:
            start_ms = int(courses.entry[0]) if len(courses.entry) else period.until_ms
        length_ms = min(max(period.until_ms - start_ms, 1), _MAX_REACH_MS)
    from_ms = until_ms - max(shape.reach_ms // length_ms, 1) * length_ms
    span = courses.between(from_ms, until_ms, period.now_ms)
    entries = np.arange(span.start, span.stop)
    if not shape.enters_once:
        number = (until_ms - 1 - courses.entry[span]) // length_ms
        unit = courses.unit[span] + number * (courses.unit.max(initial=0) + 1)
        reached = 1 + (courses.done[span] < NEVER).sum(axis=1)
        entries = entries[_furthest(unit, reached, courses.outcome[span] == EXCLUDED)]
    own = entries[courses.of_cohort(entries, period.cohort)]
    of_cohort = period.cohort is not None and len(own) >= MIN_COHORT_HISTORY
    is_whole = period.cohort is not None and not of_cohort
    return History(entries if is_whole else own, from_ms, until_ms, of_cohort)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The forecast of one day, without its calibration. open: number of open units."""

    rates: Rates
    chances: Chances
    history: History
    counts: Counts
    open: int


class Estimator:
    """Answers questions about the same courses on any day. Days with equal histories share their
    chances.
    """

    def __init__(
        self, courses: Courses, shape: Shape, goals: Sequence[int], check: Callable[[], None]
    ) -> None:
        """check: raises an error when the time is up."""
        self.courses, self.shape, self.goals = courses, shape, goals
        self._check = check
        self._chances: dict[tuple[int, int, int | None], tuple[History, Chances]] = {}
        self._part = cache(courses.part)

    def estimate(self, period: Period, *, is_part: bool) -> Estimate | None:
        """Return the forecast of a period; None if no unit is open, or there are too few.

        is_part: whether it is about a cohort or a bucket.
        """
        units = self._standing(period)
        open_units, eligible = int(units.waits.sum()), int((~units.excluded).sum())
        if not open_units or not eligible or (is_part and eligible < MIN_ELIGIBLE):
            return None
        history, chances = self.chances(period)
        counts = counts_of(units, chances, self.shape, self.goals)
        rates = rates_of(counts, chances, self.shape, self.goals)
        if not np.isfinite(rates.rate).all():
            return None
        return Estimate(rates, chances, history, counts, open_units)

    def _standing(self, period: Period) -> Standing:
        if period.cohort is None or not self.shape.enters_once:
            return standing(self.courses, self.shape, period)
        # A unit with one entry is in one cohort, so the others need not be read.
        return standing(self._part(period.cohort), self.shape, replace(period, cohort=None))

    def chances(self, period: Period) -> tuple[History, Chances]:
        length = 0 if self.shape.enters_once else period.until_ms - (period.start_ms or 0)
        key = period.now_ms, length, period.cohort
        if key not in self._chances:
            self._check()
            history = history_of(self.courses, self.shape, period)
            if period.cohort is not None and not history.of_cohort:
                self._chances[key] = self.chances(replace(period, cohort=None))
            else:
                chances = chances_of(self.courses, history.entries, self.shape, self.goals)
                self._chances[key] = replace(history, entries=np.empty(0, np.int64)), chances
        return self._chances[key]

    def truth(self, period: Period) -> Floats | None:
        """Return the rates at which the units settled that had entered by the period's time."""
        later_ms = period.until_ms + self.shape.window_ms
        end_ms = period.now_ms + 1
        if period.end_ms is not None:
            end_ms = min(end_ms, period.end_ms)
        later = Period(later_ms, period.start_ms, end_ms, period.cohort)
        units = self._standing(later)
        eligible = ~units.excluded
        if not eligible.any():
            return None
        reached = units.reached[eligible]
        return np.array([(reached >= goal).mean() for goal in self.goals])
