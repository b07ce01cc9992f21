"""Counts a unit as ClickHouse's `windowFunnel`, PostHog, Amplitude and Mixpanel do.

Written from the rules of the other tools alone, before the service counted like them. It uses only
the standard library; of Penstock's own rules it uses the runs of a unit. All events are those of
one unit: a visitor, or one attempt ID. Each tool looks at every way to choose events for the steps,
even where that is slow.

The rules leave these choices:

 1. Period: `endAt` itself is outside, as in Penstock. Without a period, nothing is cut.
 2. Window: without one, nothing is too late. Its end is inside for every tool.
 3. One event, once: the choice of events that leads furthest counts, also if an event matches
    several steps.
 4. Equal times of PostHog: events of one time may serve the steps in any order of arrival. With a
    tolerance, so may events that many milliseconds apart, each compared with the step before it.
 5. Equal seconds of Amplitude: the time of every event, and with it the window, is cut to seconds.
    The period is not: it looks at the time that was sent. Events of one second that match the same
    steps count as one, as in the story of two equal events.
 6. Two seconds of Mixpanel: exactly 2,000 ms are within. Each step is compared with the step before
    it, so several steps can go back further. The entry is the first one in the period; later steps
    may lie before the period. The earliest fitting event serves a step. With optimized re-entry the
    latest of the entries that lead furthest counts.
 7. Window of Mixpanel: it begins at the entry; an event up to two seconds before it is inside.
 8. Totals of Mixpanel: a run ends with its completion, its exclusion or its window, and the next
    one begins with the first entry after that. Runs before the period do not matter.
 9. An exclusion lies between two steps if it is later than the first and earlier than the second.
    After the last step that was reached it counts until the window's end. Equal times are unknown
    for Mixpanel.
10. PostHog's exclusions: one try without an exclusion is enough among those that lead furthest,
    also by other events for the same entry.
11. Strict order: an event lies between two steps if it is later than the first and earlier than the
    second, whatever its name. Amplitude compares seconds.
12. Any order: the window begins with the first chosen event, which is in the period. For Amplitude
    and Mixpanel, later ones may follow the period.
13. Breakdowns of PostHog: the first event that matches a step and has the value. Those of Mixpanel:
    each value has its own first entry, and later steps may have any value.
14. Completion times: PostHog takes the first time at which the furthest step was reached, and the
    latest start that leads there.
15. `windowFunnel` reads the events of the period that match a step, and with `strict_order` all
    events of the unit. With `strict_once` the choice of events is free, as for choice 3.
16. Reasons: a unit that a tool does not count, and one that did not enter, have reached 0 steps.
    Excluded units differ from others in their outcome also where their steps are equal.
17. A trend counts a unit once in each of its spans: only entries of the span may begin there, and
    a tool reads the same events as for the whole period. Runs are those of the whole period.
18. A comparison of values counts a unit in the cohort of its value. For PostHog and Amplitude there
    is one value, for Mixpanel one for each value of an entry, for Penstock that of its entry.
19. A single rule of a tool, applied to Penstock's own: `within` keeps the rule of sequence numbers
    that do not rise, but not their order at equal times. One event for every step is the engine's
    function, which has no numbers, and for an attempt no first entry: it is tried only without.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from tests.funnels.reference.any_order import runs_in_any_order
from tests.funnels.reference.runs import Funnel, Row, Run, UnitEvent, all_runs, counted_run

SECOND_MS = 1000
MIXPANEL_TOLERANCE_MS = 2 * SECOND_MS


class NotKnown(Exception):
    """Nobody outside the tool knows what it counts here."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the unit. number: its sequence number. value: that of the breakdown property."""

    at_ms: int
    name: str
    number: int | None = None
    value: str | None = None
    key: int = 0


@dataclass(frozen=True, slots=True)
class ToolQuery:
    """A funnel and a period.

    steps: for each step, the names of its events. excluded: names of the exclusions after a step,
    by its number. span: start and end of the only times at which units may enter; None for the
    whole period. of_attempts, every_run, has_numbers: whether the unit is an attempt, a run of a
    visitor, and whether the funnel has a sequence property, for Penstock's own rules.
    """

    steps: Sequence[Collection[str]]
    window_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    excluded: Mapping[int, Collection[str]] = field(default_factory=dict)
    strict: bool = False
    any_order: bool = False
    span: tuple[int, int] | None = None
    of_attempts: bool = False
    every_run: bool = False
    has_numbers: bool = False

    @property
    def has_shared_events(self) -> bool:
        """Whether an event may match several steps."""
        return any(set(first) & set(other) for first, other in combinations(self.steps, 2))

    def begins(self, at_ms: int) -> bool:
        """Whether a time is in the period."""
        return (self.start_ms is None or self.start_ms <= at_ms) and (
            self.end_ms is None or at_ms < self.end_ms
        )

    def enters(self, at_ms: int) -> bool:
        """Whether an entry at this time counts."""
        start, end = self.span or (at_ms, at_ms + 1)
        return self.begins(at_ms) and start <= at_ms < end

    def is_late(self, entry_ms: int, at_ms: int) -> bool:
        return self.window_ms is not None and at_ms > entry_ms + self.window_ms

    def matches(self, event: Event, step: int) -> bool:
        return event.name in self.steps[step]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a unit. reached: number of steps; 0 if the unit is not counted."""

    reached: int
    is_excluded: bool = False
    value: str | None = None
    took_ms: int | None = None

    @property
    def decision(self) -> tuple[int, bool]:
        """The part that must be equal in two results."""
        return self.reached, self.is_excluded


Chain = tuple[Event, ...]
"""The events of the steps that were done, in order of the steps."""

NOTHING = Result(0)


def in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.at_ms)


def chains(
    question: ToolQuery,
    events: Sequence[Event],
    entries: Iterable[Event],
    follows: Callable[[Event, Event], bool],
) -> Iterator[Chain]:
    """Yield every way to choose events for the first steps."""

    def extended(chain: Chain) -> Iterator[Chain]:
        yield chain
        if len(chain) == len(question.steps):
            return
        for event in events:
            if (
                question.matches(event, len(chain))
                and event not in chain
                and follows(chain[-1], event)
                and not question.is_late(chain[0].at_ms, event.at_ms)
            ):
                yield from extended((*chain, event))

    for entry in entries:
        if question.matches(entry, 0):
            yield from extended((entry,))


def numbered(events: Iterable[Event]) -> list[Event]:
    """The events in order of time, each distinguishable from its equals."""
    return [replace(event, key=key) for key, event in enumerate(in_order(events))]


def nothing_between(
    events: Sequence[Event], at: Callable[[Event], int]
) -> Callable[[Event, Event], bool]:
    return lambda earlier, later: not any(at(earlier) < at(event) < at(later) for event in events)


def steps_done(question: ToolQuery, events: Sequence[Event], needed: int | None = None) -> int:
    """The largest number of steps that different events can serve in any order; with the step
    `needed` among them, or 0.
    """

    def largest(step: int, free: frozenset[Event]) -> int:
        if step == len(question.steps):
            return 0
        skipped = -len(question.steps) if step == needed else largest(step + 1, free)
        taken = (
            1 + largest(step + 1, free - {event}) for event in free if question.matches(event, step)
        )
        return max((skipped, *taken))

    return max(0, largest(0, frozenset(events)))


def best_in_any_order(
    question: ToolQuery, events: Sequence[Event], needed: int | None = None
) -> Result:
    best = 0
    for first in events:
        serves = any(question.matches(first, step) for step in range(len(question.steps)))
        if serves and question.enters(first.at_ms):
            inside = [
                event
                for event in events
                if first.at_ms <= event.at_ms and not question.is_late(first.at_ms, event.at_ms)
            ]
            best = max(best, steps_done(question, inside, needed))
    return Result(best)


# -- PostHog -------------------------------------------------------------------------------------


def posthog(question: ToolQuery, events: Iterable[Event], tolerance_ms: int = 0) -> Result:
    own = [event for event in numbered(events) if question.begins(event.at_ms)]
    if question.any_order:
        if question.excluded:
            raise NotKnown("exclusions in any order")
        return best_in_any_order(question, own)
    is_free = nothing_between(own, lambda event: event.at_ms) if question.strict else None
    tries = list(
        chains(
            question,
            own,
            [event for event in own if question.enters(event.at_ms)],
            lambda last, event: (
                last.at_ms <= event.at_ms + tolerance_ms
                and (is_free is None or is_free(last, event))
            ),
        )
    )
    furthest = max(map(len, tries), default=0)
    clean = [
        chain for chain in tries if len(chain) == furthest and not is_excluded(question, own, chain)
    ]
    if not clean:
        return NOTHING
    chain = min(clean, key=lambda chain: (chain[-1].at_ms, -chain[0].at_ms))
    took_ms = chain[-1].at_ms - chain[0].at_ms
    return Result(furthest, value=first_value(question, own), took_ms=took_ms)


def first_value(question: ToolQuery, events: Iterable[Event]) -> str | None:
    values = (
        event.value
        for event in in_order(events)
        if event.value is not None and any(event.name in step for step in question.steps)
    )
    return next(values, None)


def is_excluded(question: ToolQuery, events: Sequence[Event], chain: Chain) -> bool:
    return excluded_after(question, events, chain) is not None


def excluded_after(question: ToolQuery, events: Sequence[Event], chain: Chain) -> int | None:
    """The first step after which an exclusion follows; None if there is none."""
    for step, names in sorted(question.excluded.items()):
        if step > len(chain):
            continue
        for event in events:
            if (
                event.name in names
                and chain[step - 1].at_ms < event.at_ms
                and not question.is_late(chain[0].at_ms, event.at_ms)
                and (step == len(chain) or event.at_ms < chain[step].at_ms)
            ):
                return step
    return None


# -- Amplitude -----------------------------------------------------------------------------------


def amplitude(question: ToolQuery, events: Iterable[Event], grain_ms: int = SECOND_MS) -> Result:
    if question.excluded:
        raise NotKnown("exclusions")
    own = numbered(events)
    entries = [event for event in own if question.enters(event.at_ms)]
    if question.any_order:
        return best_in_any_order(question, own, needed=0)

    def cut(event: Event) -> Event:
        return replace(event, at_ms=event.at_ms // grain_ms * grain_ms)

    own, entries = one_per_time(question, map(cut, own)), list(map(cut, entries))
    entries = [event for event in own if event in entries]
    is_free = nothing_between(own, lambda event: event.at_ms) if question.strict else None
    tries = chains(
        question,
        own,
        entries,
        lambda last, event: last.at_ms <= event.at_ms and (is_free is None or is_free(last, event)),
    )
    chain = min(tries, key=lambda each: (-len(each), each[0].at_ms, each[-1].at_ms), default=())
    if not chain:
        return NOTHING
    return Result(len(chain), value=chain[0].value, took_ms=chain[-1].at_ms - chain[0].at_ms)


def one_per_time(question: ToolQuery, events: Iterable[Event]) -> list[Event]:
    """The events without those that have the time and the steps of an earlier one."""
    first: dict[tuple[int, tuple[bool, ...]], Event] = {}
    for event in events:
        steps = tuple(question.matches(event, step) for step in range(len(question.steps)))
        first.setdefault((event.at_ms, steps), event)
    return list(first.values())


# -- Mixpanel ------------------------------------------------------------------------------------


def mixpanel(question: ToolQuery, events: Iterable[Event], *, optimized: bool = False) -> Result:
    """Count the first entry in the period; optimized: the entry that leads furthest."""
    if not optimized:
        return next(mixpanel_totals(of_span(question), events), NOTHING)
    own = numbered(events)
    entries = (
        entry for entry in own if question.matches(entry, 0) and question.enters(entry.at_ms)
    )
    tries = (
        next(mixpanel_totals(replace(question, start_ms=entry.at_ms), own), NOTHING)
        for entry in entries
    )
    return max(tries, key=lambda each: (each.reached, -(each.took_ms or 0)), default=NOTHING)


def of_span(question: ToolQuery) -> ToolQuery:
    """The same question, whose period is its span."""
    if question.span is None:
        return question
    (start_ms, end_ms), own = question.span, question
    if question.start_ms is not None and question.end_ms is not None:
        start_ms, end_ms = max(start_ms, question.start_ms), min(end_ms, question.end_ms)
    return replace(own, start_ms=start_ms, end_ms=end_ms, span=None)


def mixpanel_totals(question: ToolQuery, events: Iterable[Event]) -> Iterator[Result]:
    """Every run that begins in the period."""
    own = [replace(event, number=None) for event in numbered(events)]
    if question.strict:
        raise NotKnown("strict order")
    if question.has_shared_events:
        raise NotKnown("one event for two steps")
    if question.any_order:
        if any(question.matches(event, 0) for event in own):
            yield best_in_any_order(question, own)
            return
        raise NotKnown("any order without step 1")
    if has_equal_exclusion(question, own):
        raise NotKnown("an exclusion at the time of a step")
    after_ms: int | None = None
    for entry in own:
        if (
            not question.matches(entry, 0)
            or not question.begins(entry.at_ms)
            or (after_ms is not None and entry.at_ms <= after_ms)
        ):
            continue
        run = mixpanel_run(question, own, entry)
        step = excluded_after(question, own, run)
        reached = len(run) if step is None else step
        if question.enters(entry.at_ms):
            yield Result(reached, value=entry.value, took_ms=run[-1].at_ms - entry.at_ms)
        if len(run) == len(question.steps) and step is None:
            after_ms = run[-1].at_ms
        elif step is not None:
            after_ms = min(
                event.at_ms
                for event in own
                if event.name in question.excluded[step] and event.at_ms > run[step - 1].at_ms
            )
        elif question.window_ms is None:
            return
        else:
            after_ms = entry.at_ms + question.window_ms


def mixpanel_run(question: ToolQuery, events: Sequence[Event], entry: Event) -> Chain:
    chain: Chain = (entry,)
    while len(chain) < len(question.steps):
        following = (
            event
            for event in events
            if question.matches(event, len(chain))
            and event not in chain
            and is_fresh(event, chain)
            and event.at_ms >= chain[-1].at_ms - MIXPANEL_TOLERANCE_MS
            and not question.is_late(entry.at_ms, event.at_ms)
        )
        event = next(following, None)
        if event is None:
            break
        chain = (*chain, event)
    return chain


def is_fresh(event: Event, chain: Chain) -> bool:
    """Whether the event's number, if any, is above the last one that counted."""
    numbers = [each.number for each in chain if each.number is not None]
    return event.number is None or not numbers or event.number > numbers[-1]


def has_equal_exclusion(question: ToolQuery, events: Sequence[Event]) -> bool:
    names = {name for excluded in question.excluded.values() for name in excluded}
    steps_ms = {
        event.at_ms for event in events if any(event.name in step for step in question.steps)
    }
    return any(event.name in names and event.at_ms in steps_ms for event in events)


# -- windowFunnel --------------------------------------------------------------------------------


def window_funnel(
    question: ToolQuery, events: Iterable[Event], *modes: str, unit_ms: int = 1
) -> Result:
    """ClickHouse's function over the events of the period. unit_ms: 1, or 1000 for seconds."""
    if question.any_order or question.excluded:
        raise NotKnown("any order and exclusions")
    own = [event for event in numbered(events) if question.begins(event.at_ms)]
    own = [replace(event, at_ms=event.at_ms // unit_ms) for event in own]
    window = None if question.window_ms is None else question.window_ms // unit_ms
    question = replace(question, window_ms=window, start_ms=None, end_ms=None)
    if question.span is not None:
        start_ms, end_ms = question.span
        question = replace(question, span=(start_ms // unit_ms, end_ms // unit_ms))
    if "strict_once" in modes:
        tries = chains(
            question,
            own,
            [event for event in own if question.enters(event.at_ms)],
            lambda last, event: (
                last.at_ms < event.at_ms
                if "strict_increase" in modes
                else last.at_ms <= event.at_ms
            ),
        )
        return Result(max(map(len, tries), default=0))
    return Result(longest_level(question, own, modes))


def longest_level(question: ToolQuery, events: Sequence[Event], modes: Sequence[str]) -> int:
    """One pass, in which every later event of a step replaces the one before it: an entry in the
    middle makes the steps that follow it begin again.
    """
    steps = len(question.steps)
    rows = sorted(
        (event.at_ms, step)
        for event in events
        for step in [
            step
            for step in range(steps)
            if question.matches(event, step) and (step or question.enters(event.at_ms))
        ]
        or ([-1] if "strict_order" in modes else [])
    )
    starts: list[tuple[int, int] | None] = [None] * steps  # Time of the entry, and of the step.
    for at_ms, step in rows:
        if step == -1:
            if starts[0] is not None:
                break
        elif step == 0:
            starts[0] = at_ms, at_ms
        elif "strict_order" in modes and starts[0] is not None and starts[step - 1] is None:
            return starts.index(None)
        elif (before := starts[step - 1]) is not None:
            entry_ms, last_ms = before
            is_after = last_ms < at_ms or "strict_increase" not in modes
            if is_after and not question.is_late(entry_ms, at_ms):
                starts[step] = entry_ms, at_ms
                if step == steps - 1:
                    return steps
    return max((step + 1 for step in range(steps) if starts[step] is not None), default=0)


# -- Penstock with other switches ----------------------------------------------------------------


def own_result(question: ToolQuery, events: Iterable[Event], **switches: str) -> Result | None:
    """Return the result by Penstock's own rules with some replaced; None if they do not combine.

    switches: `ties` (`inStepOrder`, `second`, `within`), `afterEnd` (`cut`), `numbers`
    (`ignored`), `entries` (`first`, `best`) and `oneEvent` (`onePerTime`, `every`).
    """
    own = numbered(events)
    if switches.get("afterEnd") == "cut" and question.end_ms is not None:
        own = [event for event in own if event.at_ms < question.end_ms]
    if switches.get("numbers") == "ignored":
        own = [replace(event, number=None) for event in own]
    ties, entries = switches.get("ties", "proven"), switches.get("entries")
    is_first = question.of_attempts and entries is None
    if switches.get("oneEvent") == "every":
        if is_first or (question.has_numbers and "numbers" not in switches):
            return None
        start_ms = question.start_ms
        own = [event for event in own if start_ms is None or event.at_ms >= start_ms]
        modes = ["strict_increase"] if ties == "proven" else []
        return Result(longest_level(question, own, modes))
    if ties == "within":
        runs = [mixpanel_run(question, own, entry) for entry in own if question.matches(entry, 0)]
        runs = [run for run in (runs[:1] if is_first else runs) if question.enters(run[0].at_ms)]
        run = max(runs[:1] if entries == "first" else runs, key=len, default=())
        return Result(len(run), value=run[0].value if run else None)
    counted = counted_runs(question, own, switches)
    if entries == "first":
        counted = counted[:1]
    best = counted_run(iter(counted), None, None)
    if best is None:
        return NOTHING
    took_ms = best.done_ms[-1] - best.entry_ms
    return Result(best.reached, best.is_excluded, value_of(best.values), took_ms)


def own_by_value(
    question: ToolQuery, events: Sequence[Event], **switches: str
) -> Mapping[str | None, Result]:
    """`own_result` by the value of the cohort, with the switch `cohortFrom`: that of the entry, or
    `first` (of any step in the period), or `eachEntry`.
    """
    cohort_from = switches.pop("cohortFrom", "entry")
    result = own_result(question, events, **switches) or NOTHING
    value = result.value
    if cohort_from == "eachEntry" and not (question.of_attempts and "entries" not in switches):
        return by_value_of_entry(
            question, events, lambda own: own_result(question, own, **switches) or NOTHING
        )
    if cohort_from == "first":
        value = first_value(question, [each for each in events if question.begins(each.at_ms)])
    return {value: result} if result.reached else {}


def by_value_of_entry(
    question: ToolQuery, events: Sequence[Event], count: Callable[[Sequence[Event]], Result]
) -> Mapping[str | None, Result]:
    """The result for each value of an entry: entries with other values are left out."""
    values = {event.value for event in events if question.matches(event, 0)}
    results = {
        value: count(
            [event for event in events if not question.matches(event, 0) or event.value == value]
        )
        for value in values
    }
    return {value: result for value, result in results.items() if result.reached}


def counted_runs(
    question: ToolQuery, events: Sequence[Event], switches: Mapping[str, str]
) -> list[Run]:
    """The runs of the period, in order of entry."""
    ties = switches.get("ties", "proven")
    funnel = funnel_of(
        question, ties, enters_once=question.of_attempts and "entries" not in switches
    )
    sent_ms = {str(event.key): event.at_ms for event in events}
    if ties == "second":
        events = [replace(each, at_ms=each.at_ms // SECOND_MS * SECOND_MS) for each in events]
    if switches.get("oneEvent") == "onePerTime":
        events = one_per_time(question, events)
    read = [unit_event(question, event) for event in events]
    runs = runs_in_any_order if question.any_order else all_runs
    return [run for run in runs(funnel, read) if question.enters(sent_ms[run.entry.id])]


def funnel_of(question: ToolQuery, ties: str, *, enters_once: bool) -> Funnel:
    rows: list[Row] = []
    for step in range(1, len(question.steps) + 1):
        is_strict = question.strict and step > 1
        rows.append(Row(len(rows), 1, False, False, is_strict=is_strict))
        if step in question.excluded:
            rows.append(Row(len(rows), 1, False, False, is_exclusion=True))
    return Funnel(
        rows,
        question.window_ms,
        enters_once,
        in_step_order=ties != "proven",
        counts_runs=question.every_run,
        in_any_order=question.any_order,
    )


def unit_event(question: ToolQuery, event: Event) -> UnitEvent:
    names: list[Collection[str]] = []
    for step, step_names in enumerate(question.steps, 1):
        names.append(step_names)
        if step in question.excluded:
            names.append(question.excluded[step])
    return UnitEvent(
        id=str(event.key),
        at_ms=event.at_ms,
        is_whole_second=False,
        number=event.number,
        is_invalid=False,
        satisfied=tuple((0,) if event.name in own else () for own in names),
        values=(None if event.value is None else ("string", event.value),),
    )


def value_of(values: Sequence[tuple[str, str] | None]) -> str | None:
    return None if values[0] is None else values[0][1]


SWITCHES: Mapping[str, Mapping[str, str]] = {
    "windowfunnel": {
        "entries": "best",
        "ties": "inStepOrder",
        "afterEnd": "cut",
        "numbers": "ignored",
        "oneEvent": "every",
    },
    "posthog": {"entries": "best", "ties": "inStepOrder", "afterEnd": "cut", "numbers": "ignored"},
    "amplitude": {
        "entries": "best",
        "ties": "second",
        "numbers": "ignored",
        "oneEvent": "onePerTime",
    },
    "mixpanel": {"entries": "first", "ties": "within", "numbers": "ignored"},
}
"""The rules in which each tool may differ from Penstock's, with their values there."""

TOOLS: Mapping[str, Callable[[ToolQuery, Iterable[Event]], Result]] = {
    "windowfunnel": window_funnel,
    "posthog": posthog,
    "amplitude": amplitude,
    "mixpanel": mixpanel,
}


def by_value(
    tool: str, question: ToolQuery, events: Sequence[Event], **more: bool
) -> Mapping[str | None, Result]:
    """The results of a unit by the value of its cohort."""
    if tool == "mixpanel":
        return by_value_of_entry(question, events, lambda own: mixpanel(question, own, **more))
    result = TOOLS[tool](question, events)
    return {result.value: result} if result.reached else {}


def reasons(
    question: ToolQuery, events: Sequence[Event], tool: str
) -> list[tuple[str, ...]] | None:
    """The smallest sets of rules that turn Penstock's result into that of a tool: one or more sets
    of one rule, or of two. Empty if more are needed, or rules do not explain it; None if both
    results are equal.
    """
    theirs = TOOLS[tool](question, events).decision
    switches = SWITCHES[tool]

    def decided(names: Iterable[str]) -> tuple[int, bool] | None:
        result = own_result(question, events, **{name: switches[name] for name in names})
        return result and result.decision

    if decided(()) == theirs:
        return None
    for size in (1, 2):
        smallest = [names for names in combinations(switches, size) if decided(names) == theirs]
        if smallest:
            return smallest
    return []
