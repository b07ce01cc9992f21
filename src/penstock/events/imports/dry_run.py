"""Reads a file as an import would, and summarises it without storing anything.

Identities are resolved by the rules for stored events, but only within the file.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.accounts.model import Website
from penstock.base.clock import LATEST_MS
from penstock.base.errors import Fault, Invalid
from penstock.base.ids import ScopeId, VisitorId
from penstock.events.fields import EventValidationContext
from penstock.events.imports.entries import Occurrences, read_line
from penstock.events.imports.formats.reader import Row, UnreadableFile
from penstock.events.model import Kind, NewEvent
from penstock.identity.model import CONFLICT, Claim
from penstock.identity.resolution import IdentityResolver

_MAX_NAMES = 10_000
_MAX_IDS = 2_000_000
"""Maximum number of IDs that are resolved. Visitors are not counted in a file with more."""
_MAX_REASONS = 100
_MAX_PROPERTIES = 300
_MAX_VALUES = 20_000
"""Maximum number of values of a property that are examined."""
_MAX_VALUE_CHARS = 200
_MAX_SEEN = 3
_MOST, _NEARLY_ALL = 0.5, 0.95


class Reason(NamedTuple):
    """Why lines would be rejected. lines: their number. first_line: number of the first line."""

    fault: Fault
    lines: int
    first_line: int


class AttemptProperty(NamedTuple):
    """A property that looks like an attempt ID.

    event_names: number of event names with the property. values: number of its values.
    """

    name: str
    event_names: int
    values: int


class Summary(NamedTuple):
    """The content of a file, and the result that its import would have.

    duplicates: events that repeat an earlier line of the file. event_names: number of events by
    kind and name, most frequent first. visitors: None if the file has too many IDs. stopped: why
    the rest of the file cannot be read.
    """

    lines_read: int
    events: int
    duplicates: int
    identify_lines: int
    ignored_lines: int
    empty_lines: int
    rejected: int
    identity_conflicts: int
    visitors: int | None
    first_event_at_ms: int | None
    last_event_at_ms: int | None
    event_names: Sequence[tuple[tuple[Kind, str], int]]
    reasons: Sequence[Reason]
    attempt_properties: Sequence[AttemptProperty]
    stopped: str | None


@dataclass(slots=True)
class _Value:
    """A value of a property. Both sets have a few entries at most."""

    event_names: set[str] = field(default_factory=set)
    visitors: set[VisitorId] = field(default_factory=set)


@dataclass(slots=True)
class _Property:
    event_names: set[str] = field(default_factory=set)
    values: dict[str | int, _Value] = field(default_factory=dict)


class _Visitors:
    """Resolves the identities of a file."""

    def __init__(self) -> None:
        self._resolver = IdentityResolver({}, {})
        self._with_events = set[tuple[ScopeId, VisitorId]]()
        self.is_full = False

    def resolve(self, claim: Claim) -> tuple[VisitorId | None, bool]:
        """Return the visitor of a claim, and whether the claim is a conflict."""
        if self.is_full or len(self._resolver.visitors) >= _MAX_IDS:
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


def summarise(rows: Iterable[Row], website: Website, now_ms: int) -> Summary:
    """Read all rows of a file and summarise them."""
    context, occurrences, repeats = EventValidationContext(now_ms), Occurrences(), Occurrences()
    visitors, properties = _Visitors(), dict[str, _Property]()
    event_names, span_ms = Counter[tuple[Kind, str]](), (LATEST_MS, 0)
    reasons = dict[tuple[str, str], Reason]()
    counts = Counter[str]()
    conflicts, lines_read, stopped = 0, 0, None
    try:
        for row in rows:
            lines_read = row.lines_read
            counts["empty"] += row.empty_lines
            counts["ignored"] += row.ignored_lines
            try:
                if row.faults:
                    raise Invalid(row.faults)
                items = (
                    read_line(
                        row.content, website, occurrences, context, accepts_stored_events=True
                    )
                    if row.content
                    else []
                )
            except Invalid as error:
                counts["rejected"] += 1
                _add_reason(reasons, row.line, error.faults)
                continue
            has_conflict = False
            for item in items:
                claim = _claim(item)
                visitor_id, is_conflict = visitors.resolve(claim)
                has_conflict |= is_conflict
                if not isinstance(item, NewEvent):
                    continue
                if item.dedupe_key is not None and repeats.number(item.dedupe_key) > 1:
                    counts["duplicates"] += 1
                    continue
                counts["events"] += 1
                if len(event_names) < _MAX_NAMES or (item.kind, item.name) in event_names:
                    event_names[item.kind, item.name] += 1
                span_ms = (
                    min(span_ms[0], item.occurred_at_ms),
                    max(span_ms[1], item.occurred_at_ms),
                )
                if visitor_id is not None:
                    visitors.add_event(claim, visitor_id)
                    _examine(properties, item.name, item.properties, visitor_id)
            if items and not isinstance(items[-1], NewEvent):
                counts["identify"] += 1
            conflicts += has_conflict
    except UnreadableFile as problem:
        stopped = str(problem)
    return Summary(
        lines_read=lines_read,
        events=counts["events"],
        duplicates=counts["duplicates"],
        identify_lines=counts["identify"],
        ignored_lines=counts["ignored"],
        empty_lines=counts["empty"],
        rejected=counts["rejected"],
        identity_conflicts=conflicts,
        visitors=visitors.number(),
        first_event_at_ms=span_ms[0] if counts["events"] else None,
        last_event_at_ms=span_ms[1] if counts["events"] else None,
        event_names=event_names.most_common(),
        reasons=sorted(reasons.values(), key=lambda reason: -reason.lines),
        attempt_properties=_attempt_properties(properties, visitors, website),
        stopped=stopped,
    )


def _claim(item: NewEvent | Claim) -> Claim:
    if isinstance(item, Claim):
        return item
    return Claim(item.scope_id, item.visitor_id, item.user_id)


def _add_reason(reasons: dict[tuple[str, str], Reason], line: int, faults: Sequence[Fault]) -> None:
    """Count a rejected line by its first fault."""
    fault = faults[0]
    key = (fault.field, fault.code)
    reason = reasons.get(key)
    if reason is not None:
        reasons[key] = reason._replace(lines=reason.lines + 1)
    elif len(reasons) < _MAX_REASONS:
        reasons[key] = Reason(fault, 1, line)


def _examine(
    known: dict[str, _Property],
    event_name: str,
    properties: Mapping[str, Any],
    visitor_id: VisitorId,
) -> None:
    """Note which visitor and which events have the values of an event's properties."""
    for name, sent in properties.items():
        if isinstance(sent, bool) or not isinstance(sent, str | int) or sent == "":
            continue
        if isinstance(sent, str) and len(sent) > _MAX_VALUE_CHARS:
            continue
        if name not in known:
            if len(known) == _MAX_PROPERTIES:
                continue
            known[name] = _Property()
        examined = known[name]
        if len(examined.event_names) < _MAX_NAMES:
            examined.event_names.add(event_name)
        if sent not in examined.values:
            if len(examined.values) == _MAX_VALUES:
                continue
            examined.values[sent] = _Value()
        value = examined.values[sent]
        if len(value.event_names) < _MAX_SEEN:
            value.event_names.add(event_name)
        if len(value.visitors) < _MAX_SEEN:
            value.visitors.add(visitor_id)


def _attempt_properties(
    properties: Mapping[str, _Property], visitors: _Visitors, website: Website
) -> list[AttemptProperty]:
    """Return the properties that look like an attempt ID, those on most event names first.

    Most values are on several event names, nearly all belong to one visitor, and some visitors have
    several values: a property with one value for each visitor describes the visitor.
    """
    candidates = []
    for name, examined in properties.items():
        number = len(examined.values)
        owners = [
            {visitors.canonical(website.scope_id, each) for each in value.visitors}
            for value in examined.values.values()
        ]
        on_several = sum(len(value.event_names) > 1 for value in examined.values.values())
        of_one = sum(len(each) == 1 for each in owners)
        if (
            on_several >= _MOST * number
            and of_one >= _NEARLY_ALL * number
            and number > len(set().union(*owners))
        ):
            candidates.append(AttemptProperty(name, len(examined.event_names), number))
    return sorted(candidates, key=lambda each: (-each.event_names, -each.values, each.name))
