"""The counting rules in plain Python, for one unit, with the decision taken on each of its events.

The same rules as the engine's statement (`penstock.funnels.statements.fold`), in the rules' own words. It explains single units to people,
and the property test holds the statement against it. Source: funnel semantics; "R7" and the like are the attempt counting rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.scalar import MISSING
from penstock.funnels.definitions.model import CountingUnit, Definition, Row


class Decision(StrEnum):
    """What became of an event. Source: contract, "Funnels"."""

    ENTRY = "entry"
    ACCEPTED = "accepted"
    SEQUENCE_SKIP = "sequenceSkip"
    UNORDERED_TIE = "unorderedTie"
    OUTSIDE_WINDOW = "outsideWindow"
    NO_MATCH = "noMatch"
    UNVERIFIED_PROVIDER = "unverifiedProvider"
    DIAGNOSTIC = "diagnostic"


@dataclass(frozen=True, slots=True)
class Reading:
    """An event as one funnel reads it.

    number: its usable sequence number. invalid: it carries one that is not usable. matched: of each row of the definition, the matches that
    it satisfies, by index. values: tagged entry values, one a breakdown property.
    """

    event_id: str
    at_ms: int
    number: int | None
    invalid: bool
    matched: tuple[frozenset[int], ...]
    values: tuple[str, ...]

    @property
    def order(self) -> tuple[int, int, int, str]:
        return self.at_ms, self.number is None, self.number or 0, self.event_id

    def provably_after(self, earlier: "Reading") -> bool:
        """Whether time, or at equal times both numbers, prove the order (R6)."""
        if self.at_ms != earlier.at_ms:
            return self.at_ms > earlier.at_ms
        return self.number is not None and earlier.number is not None and self.number > earlier.number


@dataclass(frozen=True, slots=True)
class Verdict:
    """One decision. step: the required step it concerned, from 1. parts: of a group, the parts that the event filled.

    against: the event that it was compared with, for a tie. number: the last accepted sequence number, for a skip.
    """

    decision: Decision
    step: int
    parts: frozenset[int] = frozenset()
    completes: bool = False
    against: Reading | None = None
    number: int | None = None


@dataclass(slots=True)
class Journey:
    """What one unit did from one entry on.

    entry: the event that completed step 1. values: tagged entry values. rivals: the events that decide them. tied: whether by agreement.
    completed: the event that completed each step. options: for each completed step, the matches that count. accepted: the events that
    rule 5 took, after the entry. verdicts: what was decided, by event ID; events that are not in it concerned no wanted step.
    """

    entry: Reading
    values: tuple[str, ...]
    rivals: Sequence[Reading]
    tied: bool
    completed: list[Reading]
    options: list[frozenset[int]]
    events: Sequence[Reading]
    window_end_ms: int | None
    accepted: list[Reading] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def entry_ms(self) -> int:
        return self.entry.at_ms

    @property
    def reached(self) -> int:
        return len(self.completed)

    @property
    def skips(self) -> int:
        return sum(verdict.decision is Decision.SEQUENCE_SKIP for verdict in self.verdicts.values())

    @property
    def ties(self) -> int:
        return sum(verdict.decision is Decision.UNORDERED_TIE for verdict in self.verdicts.values())

    def is_open(self, evaluated_at_ms: int) -> bool:
        """Whether the window has not ended yet (R14)."""
        return self.window_end_ms is None or evaluated_at_ms <= self.window_end_ms


def required_rows(definition: Definition) -> list[tuple[int, Row]]:
    """The required steps with their places among the rows."""
    return [(place, row) for place, row in enumerate(definition.rows) if not row.diagnostic]


def journeys(definition: Definition, events: Sequence[Reading]) -> Iterator[Journey]:
    """One for each completion of step 1, the earliest first. events: of one unit, in reading order."""
    place, step = required_rows(definition)[0]
    filled: frozenset[int] = frozenset()
    filled_before: frozenset[int] = frozenset()
    verdicts: dict[str, Verdict] = {}
    now_ms, number = None, None
    for index, reading in enumerate(events):
        if reading.at_ms != now_ms:
            now_ms, filled_before = reading.at_ms, filled
        found = reading.matched[place] - filled
        if not found:
            continue
        number = number if reading.number is None else reading.number
        if step.all_of:
            filled |= found
            if len(filled) < len(step.matches):
                verdicts[reading.event_id] = Verdict(Decision.ACCEPTED, 1, found)
                continue
        rivals = [other for other in events if other.at_ms == now_ms and other.matched[place] - filled_before]
        verdicts[reading.event_id] = Verdict(Decision.ENTRY, 1, found, completes=True)
        yield _followed(definition, events, index, found, number, rivals, verdicts)
        filled, filled_before, number, verdicts = frozenset(), frozenset(), None, {}


def _followed(
    definition: Definition,
    events: Sequence[Reading],
    index: int,
    found: frozenset[int],
    number: int | None,
    rivals: Sequence[Reading],
    verdicts: dict[str, Verdict],
) -> Journey:
    """The progress from the entry `events[index]` on. number: the last usable one that step 1 took. rivals: *S* of the rules."""
    steps, entry = required_rows(definition), events[index]
    values, tied = entry_values(entry, rivals)
    window_end_ms = None if definition.window_s is None else entry.at_ms + definition.window_s * 1000
    first = _counted(steps[0][1], found)
    journey = Journey(entry, values, rivals, tied, [entry], [first], events, window_end_ms, verdicts=verdicts)
    last, filled = entry, frozenset[int]()
    for reading in events[index + 1 :]:
        if journey.reached == len(steps):
            break
        place, step = steps[journey.reached]
        wanted = journey.reached + 1
        found = reading.matched[place] - filled
        if not found:
            continue
        if window_end_ms is not None and reading.at_ms > window_end_ms:
            verdicts[reading.event_id] = Verdict(Decision.OUTSIDE_WINDOW, wanted, found)
            continue
        if not reading.provably_after(last):
            verdicts[reading.event_id] = Verdict(Decision.UNORDERED_TIE, wanted, found, against=last)
            continue
        if reading.number is not None and number is not None and reading.number <= number:
            verdicts[reading.event_id] = Verdict(Decision.SEQUENCE_SKIP, wanted, found, number=number)
            continue
        journey.accepted.append(reading)
        number = number if reading.number is None else reading.number
        if step.all_of:
            filled |= found
            if len(filled) < len(step.matches):
                verdicts[reading.event_id] = Verdict(Decision.ACCEPTED, wanted, found)
                continue
        verdicts[reading.event_id] = Verdict(Decision.ACCEPTED, wanted, found, completes=True)
        journey.completed.append(reading)
        journey.options.append(_counted(step, found))
        last, filled = reading, frozenset()
    return journey


def _counted(row: Row, found: frozenset[int]) -> frozenset[int]:
    """Every part of a complete group; else the first option that matched."""
    return frozenset(range(len(row.matches))) if row.all_of else frozenset((min(found),))


def entry_values(entry: Reading, rivals: Sequence[Reading]) -> tuple[tuple[str, ...], bool]:
    """The entry's values (R9, R10), or at a tie without usable order what all agree on (R11); and whether it was such a tie."""
    numbers = [rival.number for rival in rivals]
    ordered = len(rivals) == 1 or (None not in numbers and len(set(numbers)) == len(numbers))
    if ordered:
        return entry.values, False
    seen = [{rival.values[place] for rival in rivals} for place in range(len(entry.values))]
    return tuple(values.pop() if len(values) == 1 else MISSING for values in seen), True


def conflicts(journey: Journey, place: int) -> list[Reading]:
    """The accepted later events that carry another value of a breakdown property than the entry does, which has one (R12)."""
    mine = journey.values[place]
    return [reading for reading in journey.accepted if mine != MISSING and reading.values[place] not in (mine, MISSING)]


def seen_by_diagnostics(definition: Definition, journey: Journey) -> dict[int, list[Reading]]:
    """Of each diagnostic row that the unit came to, by place: its matching events there.

    They lie between the completion of the step above and that of the next, or the window's end; both ends included.
    """
    found: dict[int, list[Reading]] = {}
    above = 0
    for place, row in enumerate(definition.rows):
        if not row.diagnostic:
            above += 1
            continue
        if journey.reached < above:
            continue
        until_ms = journey.completed[above].at_ms if journey.reached > above else journey.window_end_ms
        from_ms = journey.completed[above - 1].at_ms
        found[place] = [
            reading
            for reading in journey.events
            if reading.matched[place] and from_ms <= reading.at_ms and (until_ms is None or reading.at_ms <= until_ms)
        ]
    return found


def chosen_journey(definition: Definition, events: Sequence[Reading], start_ms: int | None, end_ms: int | None) -> Journey | None:
    """The journey that counts for a unit, if its entry is inside the period.

    An attempt has its first one only (R12, R13); a visitor the one that leads furthest, the earliest among equals.
    """

    def inside(journey: Journey) -> bool:
        return in_period(journey.entry_ms, start_ms, end_ms)

    if definition.counting_unit is CountingUnit.ATTEMPT:
        first = next(journeys(definition, events), None)
        return first if first is not None and inside(first) else None
    return max(filter(inside, journeys(definition, events)), key=lambda journey: journey.reached, default=None)


def in_period(at_ms: int, start_ms: int | None, end_ms: int | None) -> bool:
    return (start_ms is None or start_ms <= at_ms) and (end_ms is None or at_ms < end_ms)
