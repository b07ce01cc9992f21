"""Reads a file as an import would, and summarises it without storing anything.

Identities are resolved by the rules for stored events, but only within the file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, permutations
from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.base.clock import LATEST_MS
from penstock.base.errors import Fault, Invalid
from penstock.base.id_names import names_owner
from penstock.base.ids import ScopeId, VisitorId
from penstock.base.wording import describe_attempts
from penstock.events.fields import EventValidationContext
from penstock.events.imports.dry_runs.schema import (
    AttemptPropertyRecord,
    EventNameRecord,
    FirstFunnelStepRecord,
    ImportSummaryRecord,
    ReasonRecord,
)
from penstock.events.imports.entries import (
    Occurrences,
    RowReader,
    line_excerpt,
    warning_codes,
)
from penstock.events.imports.formats.reader import DateOrder, Row, Sample, UnreadableFile
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.formats.times import common_order, swapped_format
from penstock.events.imports.rejections import RejectionLimits
from penstock.events.imports.schema import warning_records
from penstock.events.model import Kind, NewEvent
from penstock.identity.model import CONFLICT, Claim
from penstock.identity.resolution import IdentityResolver

_MAX_NAMES = 10_000
_MAX_LISTED_NAMES = 1_000
_MAX_REASONS = 100
_MAX_PROPERTIES, _MAX_LISTED_PROPERTIES = 300, 20
_MAX_VALUES = 20_000
"""Maximum number of values of a property that are examined."""
_MAX_VALUE_CHARS = 200
_EMPTY = ("", "-", "null", "none", "undefined", "nan", "(not set)")
"""Texts that programs write in place of a missing ID, in lower case."""
_MAX_SEEN = 3
_MOST, _NEARLY_ALL = 0.5, 0.95
_MAX_STEPS = 5
_MAX_ORDERED_VALUES = 500
"""Maximum number of values of a property, and of visitors, whose events give the order of steps."""
_MAX_NUMBERED_EVENTS = 5_000
"""Maximum number of events whose properties are examined for a sequence number."""
_MAX_ORDERED_NAMES = 20
"""Maximum number of event names of one value whose first times are compared."""
_MAX_CANDIDATES = 20
"""Maximum number of event names that are compared for the steps of a first funnel."""
_RARE = 0.02
"""A name that fewer than this share of those with the most frequent name reach is left out."""
_FAILURES = (
    "error", "fail", "exception", "crash", "declin", "reject", "denied", "abandon", "cancel",
    "refund", "timeout",
)  # fmt: skip
"""Parts of names of events that nobody has to reach."""

EventKey = tuple[Kind, str]
"""Kind and name of an event."""


class SummaryLimits(NamedTuple):
    """Limits of memory. ids: maximum number of IDs that are resolved; visitors are not counted in a
    file with more. values: maximum number of values of all properties that are examined. names:
    maximum number of event names that are stored with a property, a value or a visitor.
    """

    ids: int
    values: int
    names: int


ON_OWN_MACHINE = SummaryLimits(ids=2_000_000, values=1_000_000, names=5_000_000)
"""Limits of the command, which shares its memory with nobody."""


@dataclass(slots=True)
class _Budget:
    """The number of entries that may still be stored."""

    free: int
    is_exhausted: bool = False

    def take(self) -> bool:
        """Take an entry, and return whether one was left."""
        if not self.free:
            self.is_exhausted = True
            return False
        self.free -= 1
        return True


@dataclass(slots=True)
class _Order:
    """When each event name first occurred for some attempts or visitors. Times in milliseconds."""

    budget: _Budget
    first_ms: dict[str | int, dict[EventKey, int]] = field(default_factory=dict)

    def add(self, owner: str | int, event: NewEvent) -> None:
        """Note an event of an attempt or visitor."""
        times_ms = self.first_ms.get(owner)
        if times_ms is None:
            if len(self.first_ms) == _MAX_ORDERED_VALUES:
                return
            times_ms = self.first_ms[owner] = {}
        key, at_ms = (event.kind, event.name), event.occurred_at_ms
        if key in times_ms:
            times_ms[key] = min(times_ms[key], at_ms)
        elif len(times_ms) < _MAX_ORDERED_NAMES and self.budget.take():
            times_ms[key] = at_ms

    def merged(self, canonical: Callable[[VisitorId], VisitorId]) -> "_Order":
        """Return the first times of visitors as they are after all merges."""
        merged = _Order(self.budget)
        for owner, times_ms in self.first_ms.items():
            of_visitor = merged.first_ms.setdefault(canonical(VisitorId(str(owner))), {})
            for key, at_ms in times_ms.items():
                of_visitor[key] = min(at_ms, of_visitor.get(key, at_ms))
        return merged

    def steps(self) -> list[FirstFunnelStepRecord]:
        """Return the steps of a first funnel, in the order in which they are usually reached.

        The last of the names that many reach is the goal. The others are those that most who reach
        the goal have reached before, without failures. Names that begin with `$` are those of
        events that a product records by itself, so they are steps only if there are no others.
        """
        reached = Counter(key for times_ms in self.first_ms.values() for key in times_ms)
        for is_left_out in (_is_recorded, _is_failure):
            left = Counter({key: n for key, n in reached.items() if not is_left_out(key)})
            reached = left or reached
        frequent = reached.most_common(_MAX_CANDIDATES)
        names = self._in_order([key for key, n in frequent if n >= _RARE * frequent[0][1]])
        if not names:
            return []
        *others, goal = names
        successful = [times_ms for times_ms in self.first_ms.values() if goal in times_ms]
        before = Counter(
            key for ms in successful for key in others if key in ms and ms[key] <= ms[goal]
        )
        on_way = [key for key in others if before[key] >= _MOST * len(successful)] or others
        chosen = {goal, *sorted(on_way, key=reached.__getitem__)[1 - _MAX_STEPS :]}
        return [
            FirstFunnelStepRecord(type=kind, name=name)
            for kind, name in names
            if (kind, name) in chosen
        ]

    def _in_order(self, names: Sequence[EventKey]) -> list[EventKey]:
        """Sort names by the mean share of attempts or visitors that reached each of the other names
        before.
        """
        earlier = Counter[tuple[EventKey, EventKey]]()
        for times_ms in self.first_ms.values():
            known = [key for key in names if key in times_ms]
            earlier.update(
                (first, second)
                for first, second in permutations(known, 2)
                if times_ms[first] < times_ms[second]
            )

        def share_before(key: EventKey) -> float:
            pairs = [(earlier[other, key], earlier[key, other]) for other in names if other != key]
            shares = [before / (before + after) for before, after in pairs if before or after]
            return sum(shares) / len(shares) if shares else 1

        return sorted(names, key=share_before)


def _is_recorded(key: EventKey) -> bool:
    return key[1].startswith("$")


def _is_failure(key: EventKey) -> bool:
    name = key[1].lower()
    return any(word in name for word in _FAILURES)


@dataclass(slots=True)
class _Value:
    """A value of a property. The sets have a few entries at most. repeated: event names that it
    is on several times.
    """

    event_names: set[EventKey] = field(default_factory=set)
    repeated: tuple[EventKey, ...] = ()
    visitors: set[VisitorId] = field(default_factory=set)


@dataclass(slots=True)
class _Property:
    order: _Order
    events: Counter[EventKey] = field(default_factory=Counter)
    values: dict[str | int, _Value] = field(default_factory=dict)


class _Visitors:
    """Resolves the identities of a file."""

    def __init__(self, max_ids: int) -> None:
        self._resolver, self._max_ids = IdentityResolver({}, {}), max_ids
        self._with_events = set[tuple[ScopeId, VisitorId]]()
        self.is_full = False

    def resolve(self, claim: Claim) -> tuple[VisitorId | None, bool]:
        """Return the visitor of a claim, and whether the claim is a conflict."""
        if self.is_full or len(self._resolver.visitors) >= self._max_ids:
            self.is_full = True
            return None, False
        number = len(self._resolver.visitors)
        resolution = self._resolver.resolve(claim, lambda: VisitorId(f"\0{number}"))
        return resolution.visitor_id, CONFLICT in resolution.notices

    def add_event(self, claim: Claim, visitor_id: VisitorId) -> None:
        self._with_events.add((claim.scope_id, visitor_id))

    def canonical(self, scope_id: ScopeId, visitor_id: VisitorId) -> VisitorId:
        """Return the visitor as it is after all merges."""
        visitor = self._resolver.visitors.get((scope_id, visitor_id))
        return visitor_id if visitor is None else visitor.canonical_id

    def number(self) -> int | None:
        """Return the number of visitors with events."""
        if self.is_full:
            return None
        return len({self.canonical(scope, visitor) for scope, visitor in self._with_events})


class _Properties:
    """Which visitors and which events have the values of properties."""

    def __init__(self, max_values: int, names: _Budget, attempt: str | None) -> None:
        """attempt: the property that the mapping names as the attempt ID."""
        self._known, self._values, self._names = dict[str, _Property](), _Budget(max_values), names
        self._attempt = attempt
        if attempt is not None:
            self._known[attempt] = _Property(_Order(names))
        self.left_out_properties = self._left_out_values = False

    @property
    def left_out_values(self) -> bool:
        """Whether values of properties were not examined."""
        return self._left_out_values or self._values.is_exhausted

    def add(self, event: NewEvent, visitor_id: VisitorId) -> None:
        """Note the properties of an event."""
        for name, sent in event.properties.items():
            if isinstance(sent, bool) or not isinstance(sent, str | int):
                continue
            if names_owner(name) and name != self._attempt:
                continue
            if isinstance(sent, str) and (len(sent) > _MAX_VALUE_CHARS or _is_empty(sent)):
                continue
            if name not in self._known:
                if len(self._known) == _MAX_PROPERTIES:
                    self.left_out_properties = True
                    continue
                self._known[name] = _Property(_Order(self._names))
            self._add_value(self._known[name], sent, event, visitor_id)

    def _add_value(
        self, examined: _Property, sent: str | int, event: NewEvent, visitor_id: VisitorId
    ) -> None:
        key = (event.kind, event.name)
        if key in examined.events or (len(examined.events) < _MAX_NAMES and self._names.take()):
            examined.events[key] += 1
        if sent not in examined.values:
            if len(examined.values) == _MAX_VALUES:
                self._left_out_values = True
                return
            if not self._values.take():
                return
            examined.values[sent] = _Value()
        value = examined.values[sent]
        if key in value.event_names and key not in value.repeated:
            value.repeated = (*value.repeated, key)
        if len(value.event_names) < _MAX_SEEN:
            value.event_names.add(key)
        if len(value.visitors) < _MAX_SEEN:
            value.visitors.add(visitor_id)
        examined.order.add(sent, event)

    def attempt_properties(
        self, visitors: _Visitors, website: Website, event_names: Counter[EventKey]
    ) -> list[AttemptPropertyRecord]:
        """Return the properties that look like an attempt ID, those on most event names first. IDs
        of people, devices and sessions are left out by their names. The attempt ID of the mapping
        comes first. event_names: the number of events with each name.

        Most values are on several event names, nearly all belong to one visitor, and some visitors
        have several values: a property with one value for each visitor describes the visitor.
        """
        candidates = []
        for name, examined in self._known.items():
            number = len(examined.values)
            owners = [
                {visitors.canonical(website.scope_id, each) for each in value.visitors}
                for value in examined.values.values()
            ]
            on_several = sum(len(value.event_names) > 1 for value in examined.values.values())
            of_one = sum(len(each) == 1 for each in owners)
            looks_like_one = (
                on_several >= _MOST * number
                and of_one >= _NEARLY_ALL * number
                and number > len(set().union(*owners))
            )
            if looks_like_one or (name == self._attempt and number):
                candidates.append(_measured(name, examined, owners, event_names))
        candidates.sort(
            key=lambda each: (
                each.name != self._attempt,
                -each.event_names,
                each.several_entries + each.several_visitors,
                -each.values,
                each.name,
            )
        )
        return candidates[:_MAX_LISTED_PROPERTIES]


def _measured(
    name: str,
    examined: _Property,
    owners: Sequence[set[VisitorId]],
    event_names: Counter[EventKey],
) -> AttemptPropertyRecord:
    """Return a property that looks like an attempt ID. owners: the visitors of each value."""
    steps = examined.order.steps()
    keys = [(step.type, step.name) for step in steps]
    values = examined.values.values()
    of_visitors = Counter(visitor for each in owners for visitor in each)
    events = sum(event_names[key] for key in keys)
    share = sum(examined.events[key] for key in keys) / events if events else 1.0
    figures = {
        "several_entries": sum(keys[0] in value.repeated for value in values) if keys else 0,
        "several_visitors": sum(len(each) > 1 for each in owners),
        "split_visitors": sum(number > 1 for number in of_visitors.values()),
    }
    return AttemptPropertyRecord(
        name=name,
        values=len(values),
        event_names=len(examined.events),
        share=share,
        sentence=describe_attempts(name, share, len(values), **figures),
        steps=tuple(steps),
        **figures,
    )


def _is_empty(text: str) -> bool:
    return text.strip().lower() in _EMPTY


class _Sequences:
    """The properties of events that number the events of each visitor in their order.

    Examines the first events of some visitors. numbers: by property and visitor, the number and the
    time of each event.
    """

    def __init__(self) -> None:
        self._events = 0
        self._numbers: dict[str, dict[VisitorId, list[tuple[int, int]]]] = {}

    def add(self, visitor_id: VisitorId, event: NewEvent) -> None:
        """Note the whole numbers among the properties of an event."""
        if self._events == _MAX_NUMBERED_EVENTS:
            return
        self._events += 1
        for name, number in event.properties.items():
            if type(number) is int and number >= 0:
                of_visitors = self._numbers.setdefault(name, {})
                of_visitors.setdefault(visitor_id, []).append((number, event.occurred_at_ms))

    def best(self) -> str | None:
        """Return the property that is on most events; None if no property numbers them."""
        sizes = {
            name: sum(map(len, of_visitors.values()))
            for name, of_visitors in self._numbers.items()
            if all(map(_rises_with_time, of_visitors.values()))
            and any(len(numbered) > 1 for numbered in of_visitors.values())
        }
        name = max(sizes, key=sizes.__getitem__, default=None)
        return None if name is None or sizes[name] < _NEARLY_ALL * self._events else name


def _rises_with_time(numbered: list[tuple[int, int]]) -> bool:
    """Whether no number of a visitor repeats, and a higher number is never earlier."""
    return all(
        number < later_number and at_ms <= later_ms
        for (number, at_ms), (later_number, later_ms) in pairwise(sorted(numbered))
    )


class Summariser:
    """Summarises the rows of a file, one by one."""

    def __init__(
        self,
        website: Website,
        now_ms: int,
        limits: SummaryLimits = ON_OWN_MACHINE,
        rejections: RejectionLimits = RejectionLimits(),  # noqa: B008
        *,
        mapping: ImportMapping | None = None,
        accepts_stored_events: bool = True,
    ) -> None:
        self._website, self._mapping = website, mapping
        self._limits, self._names = limits, (names := _Budget(limits.names))
        self._context, self._order = EventValidationContext(now_ms), _Order(names)
        self._reader = RowReader(website, accepts_stored_events=accepts_stored_events)
        self._rejection_limits = rejections
        self._repeats = Occurrences()
        attempt = None if mapping is None else mapping.attempt_property
        self._visitors = _Visitors(limits.ids)
        self._properties = _Properties(limits.values, names, attempt)
        self._sequences = _Sequences()
        self._event_names = Counter[EventKey]()
        self._span_ms = (LATEST_MS, 0)
        self._reasons = dict[tuple[str, str], ReasonRecord]()
        self._counts, self._warning_lines = Counter[str](), Counter[str]()
        self._date_orders = set[DateOrder]()
        self._left_out_names = self._left_out_reasons = False
        self.lines_read = 0

    @property
    def date_order(self) -> DateOrder | None:
        """The order of day and month that all rows so far allow; see `common_order`."""
        return common_order(self._date_orders)

    def add(self, row: Row) -> None:
        """Read a row. Raises `UnreadableFile` if the import would stop after it."""
        self.lines_read = row.lines_read
        if row.date_order is not None:
            self._date_orders.add(row.date_order)
        self._counts["empty"] += row.empty_lines
        self._counts["ignored"] += row.ignored_lines
        try:
            items = self._reader.read(row, self._context)
        except Invalid as error:
            self._add_reason(row, error.faults)
            if self._reader.rejections.exceed(self._rejection_limits):
                rejected = self._reader.rejections.text(self._rejection_limits)
                raise UnreadableFile(
                    f"The import would stop after {rejected}. Correct the file, or choose another "
                    "format."
                ) from None
            return
        self._warning_lines.update(warning_codes(row, items))
        has_conflict = False
        for item in items:
            claim = _claim(item)
            visitor_id, is_conflict = self._visitors.resolve(claim)
            has_conflict |= is_conflict
            if isinstance(item, NewEvent):
                self._add_event(item, claim, visitor_id)
        if items and isinstance(items[-1], Claim):
            self._counts["identify"] += 1
        self._counts["conflicts"] += has_conflict

    def _add_event(self, event: NewEvent, claim: Claim, visitor_id: VisitorId | None) -> None:
        if event.dedupe_key is not None and self._repeats.number(event.dedupe_key) > 1:
            self._counts["duplicates"] += 1
            return
        self._counts["events"] += 1
        self._counts["whole_seconds"] += event.occurred_at_ms % 1000 == 0
        key = (event.kind, event.name)
        if len(self._event_names) < _MAX_NAMES or key in self._event_names:
            self._event_names[key] += 1
        else:
            self._left_out_names = True
        first_ms, last_ms = self._span_ms
        self._span_ms = min(first_ms, event.occurred_at_ms), max(last_ms, event.occurred_at_ms)
        if visitor_id is not None:
            self._visitors.add_event(claim, visitor_id)
            self._properties.add(event, visitor_id)
            self._order.add(visitor_id, event)
            self._sequences.add(visitor_id, event)

    def _add_reason(self, row: Row, faults: Sequence[Fault]) -> None:
        """Count a rejected line by its first fault."""
        fault = faults[0]
        key = (fault.field, fault.code)
        reason = self._reasons.get(key)
        if reason is not None:
            self._reasons[key] = reason.model_copy(update={"lines": reason.lines + 1})
        elif len(self._reasons) < _MAX_REASONS:
            excerpt = line_excerpt(row.content) if row.content else None
            self._reasons[key] = ReasonRecord.from_object(
                fault, lines=1, first_line=row.line, excerpt=excerpt
            )
        else:
            self._left_out_reasons = True

    def _left_out(self) -> tuple[str, ...]:
        """Say what the summary leaves out, in sentences."""
        limits, properties = self._limits, self._properties
        of_values = f"{_MAX_VALUES:,} of each property, and {limits.values:,} in all"
        return tuple(
            sentence
            for is_left_out, sentence in (
                (self._left_out_names, f"Only the first {_MAX_NAMES:,} event names are listed."),
                (self._left_out_reasons, f"Only the first {_MAX_REASONS} reasons are listed."),
                (
                    self._visitors.is_full,
                    f"The file has more than {limits.ids:,} IDs, so visitors are not counted. "
                    "Attempt IDs and steps come from the events before.",
                ),
                (
                    properties.left_out_properties,
                    f"Attempt IDs are looked for in the first {_MAX_PROPERTIES} properties.",
                ),
                (
                    properties.left_out_values,
                    f"Attempt IDs are looked for in the first values: {of_values}.",
                ),
                (
                    self._names.is_exhausted,
                    f"Steps come from the first {limits.names:,} combinations of an ID or a value "
                    "with an event name.",
                ),
            )
            if is_left_out
        )

    def summary(
        self,
        *,
        error: str | None = None,
        is_complete: bool = True,
        sample: Sample | None = None,
        revision: int = 1,
    ) -> ImportSummaryRecord:
        """Return the summary of the rows so far. error: why the import would fail after them."""
        counts, mapping, (first_ms, last_ms) = self._counts, self._mapping, self._span_ms
        canonical = partial(self._visitors.canonical, self._website.scope_id)
        return ImportSummaryRecord(
            revision=revision,
            is_complete=is_complete,
            has_reached_limit=bool(left_out := self._left_out()),
            left_out=left_out,
            error=error,
            lines_read=self.lines_read,
            events=counts["events"],
            duplicates=counts["duplicates"],
            identify_lines=counts["identify"],
            ignored_lines=counts["ignored"],
            empty_lines=counts["empty"],
            rejected=self._reader.rejections.number,
            identity_conflicts=counts["conflicts"],
            visitors=self._visitors.number(),
            first_event_at=first_ms if counts["events"] else None,
            last_event_at=last_ms if counts["events"] else None,
            event_name_count=len(self._event_names),
            event_names=tuple(
                EventNameRecord(type=kind, name=name, events=events)
                for (kind, name), events in self._event_names.most_common(_MAX_LISTED_NAMES)
            ),
            reasons=tuple(sorted(self._reasons.values(), key=lambda reason: -reason.lines)),
            warnings=warning_records(self._warning_lines),
            attempt_properties=tuple(
                self._properties.attempt_properties(
                    self._visitors, self._website, self._event_names
                )
            ),
            sample=sample,
            mapping=mapping,
            steps=tuple(self._order.merged(canonical).steps()),
            whole_seconds=0 < counts["events"] == counts["whole_seconds"],
            sequence_property=self._sequences.best(),
            other_date_format=swapped_format(mapping.time_format)
            if mapping is not None and self.date_order is DateOrder.EITHER
            else None,
        )


def summarise(
    rows: Iterable[Row], website: Website, now_ms: int, mapping: ImportMapping | None = None
) -> ImportSummaryRecord:
    """Read all rows of a file and summarise them. mapping: the uses of its columns, if any."""
    summariser = Summariser(website, now_ms, mapping=mapping)
    try:
        for row in rows:
            summariser.add(row)
    except UnreadableFile as problem:
        return summariser.summary(error=str(problem))
    return summariser.summary()


def _claim(item: NewEvent | Claim) -> Claim:
    if isinstance(item, Claim):
        return item
    return Claim(item.scope_id, item.visitor_id, item.user_id)
