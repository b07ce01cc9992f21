"""Proposes the attempt ID of a funnel: keys of its events, measured and sorted, the best first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from pydantic import model_validator

from penstock.base.id_names import looks_like_id, names_person_or_device, words_of
from penstock.base.ids import WorkspaceId
from penstock.base.wording import describe_attempts
from penstock.funnels.definitions.builtins import SESSION_KEY, VISITOR_KEY
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import DraftFunnel
from penstock.funnels.results.schema import PreviewIn
from penstock.funnels.saved.schema import ATTEMPT_WINDOW_S
from penstock.funnels.statements.attempt_keys import (
    Keys,
    measure,
    opaque_properties,
    parts_of,
    step_hours,
)
from penstock.funnels.statements.query import Plan
from penstock.http.schema import Rate, Record

_MAX_EVENTS = 300_000
_MAX_PROPERTIES, _MAX_PROPOSALS = 12, 5
_MIN_VALUES = 10
"""Properties with fewer values describe attempts, and do not name them."""
_MAX_OF_ONE = 0.5
"""A value on a larger share of the events is a constant with exceptions."""
_AMOUNTS = (
    "amount", "price", "total", "value", "revenue", "quantity", "count", "score", "duration",
    "cents", "timestamp",
)  # fmt: skip
"""Ends of names of numbers that measure something. One value on all steps looks like an ID."""
_MIN_ATTEMPTS = 10
_MIN_GAIN = 1.03
"""A key must have a score that is higher than that of visitors by this factor, or separate half of
the entries that a visitor repeats, and at least `_MIN_SEPARATED`.
"""
_MIN_SEPARATED = 5
_MAX_RETURNS = 0.4
"""An ID with more than this share of the further journeys of a visitor lasts as long as people and
devices do.
"""
_MIN_CONNECTED = 0.2
_FOR_SESSIONS, _FOR_VISITORS, _FOR_OTHER_NAMES = 0.97, 0.95, 0.98
"""Factors that put other keys behind a property with the name of an ID that does as well."""


class AttemptKeysIn(PreviewIn):
    """A draft of a funnel. Its own unit and attempt ID are ignored."""

    @model_validator(mode="before")
    @classmethod
    def _count_visitors(cls, draft: Any) -> Any:
        if not isinstance(draft, dict):
            return draft
        body = {key: value for key, value in draft.items() if not key.startswith("attemptProp")}
        if "conversionWindow" not in body and body.get("conversionWindowSeconds") is None:
            body["conversionWindowSeconds"] = ATTEMPT_WINDOW_S
        return {**body, "countingUnit": CountingUnit.VISITOR}


class AttemptKeyRecord(Record):
    """Keys whose values together could be the attempt ID. The numbers of attempts and visitors are
    those of the examined share.
    """

    keys: list[str]
    """One property, `$session`, or `$visitor` and a property."""
    share: Rate
    """Share of the events of all steps that have an ID."""
    entry_share: Rate
    """Share of the events of step 1 that have an ID. The others cannot enter."""
    connected: Rate
    """Share of the events of later steps that follow an entry with the same ID in its window."""
    attempts: int
    """IDs with an event of step 1."""
    several_entries: int
    """Those with more than one event of step 1, of which only the first counts."""
    several_visitors: int
    """IDs with events of several visitors."""
    split_visitors: int
    """Visitors who have several IDs, so that their journeys count separately."""
    joined_visitors: int
    """Visitors who share an ID with others, so that their journeys count as one."""
    sentence: str
    """The same in words."""


class AttemptKeysRecord(Record):
    """Keys that could be the attempt ID of a funnel, the best first."""

    events: int
    """Events of steps in the period and its windows: the latest if there are over 300,000."""
    examined: Rate
    """Share of attempts and visitors that were examined, chosen at random: 1 unless there are over
    100,000 events.
    """
    data: list[AttemptKeyRecord]
    """At most five. Empty if no key tells journeys apart better than visitors do."""
    sentence: str
    """Advice in words."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A candidate with its row of `statements.attempt_keys.measure`."""

    keys: Keys
    row: Mapping[str, Any]

    @property
    def connected(self) -> float:
        """Share of later events that follow an entry of the same attempt."""
        of_events_with_id = _ratio(self.row["connected"], self.row["own_later"])
        return of_events_with_id * _ratio(self.row["later_with_id"], self.row["later"])

    @property
    def returns(self) -> int:
        """Journeys that come after another journey of the same attempt."""
        return int(self.row["runs"] - self.row["attempts"])

    @property
    def repeated(self) -> int:
        """Entries that come after another entry of the same attempt."""
        return int(self.row["own_entries"] - self.row["attempts"])

    @property
    def score(self) -> float:
        """How well the attempts are journeys, from 0 to 1.

        A step that is cut off from its entry is worse than two entries in one attempt, which may be
        one journey that began again.
        """
        entries = _ratio(self.row["entries_with_id"], self.row["entries"])
        distinct = _ratio(self.row["attempts"], self.row["own_entries"])
        separate = _ratio(self.row["attempts"], self.row["runs"])
        return entries * self.connected**2 * separate * sqrt(distinct)

    @property
    def preference(self) -> float:
        """The score, lowered for keys that are less simple to use or to understand."""
        *others, key = self.keys
        kind = _FOR_VISITORS if others else _FOR_SESSIONS if key == SESSION_KEY else 1
        return self.score * kind * (1 if looks_like_id(key) else _FOR_OTHER_NAMES)

    def is_proposed(self, visitors: "_Measured") -> bool:
        """Whether the key tells journeys apart better than visitors do."""
        separated = visitors.repeated - self.repeated
        separates = separated >= max(_MIN_SEPARATED, visitors.repeated / 2)
        return (
            self.row["attempts"] >= _MIN_ATTEMPTS
            and self.connected >= _MIN_CONNECTED
            and self.returns <= _MAX_RETURNS * visitors.returns
            and self.score > visitors.score * (1 if separates else _MIN_GAIN)
        )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def find_attempt_keys(
    runner: FunnelQueryRunner, workspace_id: WorkspaceId, draft: AttemptKeysIn
) -> AttemptKeysRecord:
    """Measure the keys that could be the attempt ID of a draft. Raises the same errors as
    `FunnelQueryRunner.prepare`.
    """
    context = runner.prepare(workspace_id, DraftFunnel(draft.saved()), draft.selection())
    context, events = _latest(runner, context)
    measured = _measure(runner, context, events) if events else []
    best = [_record(each) for each in _best(measured)]
    return AttemptKeysRecord(
        events=events,
        examined=1 / parts_of(events),
        data=best,
        sentence=_advice(events, best),
    )


def _latest(runner: FunnelQueryRunner, context: QueryContext) -> tuple[QueryContext, int]:
    """Return the query about the latest hours with about `_MAX_EVENTS` step events, and their
    number.
    """
    events, params = 0, context.params
    for hour in runner.fetch_events(context, step_hours(_plan(context))).rows:
        if events >= _MAX_EVENTS:
            break
        events, start_ms = events + hour["events"], hour["start_ms"]
    else:
        return context, events
    end_ms = params.evaluated_at_ms + 1 if params.end_ms is None else params.end_ms
    return context.with_params(start_ms=start_ms, end_ms=end_ms), events


def _measure(runner: FunnelQueryRunner, context: QueryContext, events: int) -> list[_Measured]:
    """Measure visitors, the session, and properties with and without the visitor."""
    statement = opaque_properties(_plan(context), events)
    properties = list(_candidates(context, runner.fetch_events(context, statement).rows))
    candidates: list[Keys] = [
        (),
        (SESSION_KEY,),
        *((name,) for name in properties),
        *((VISITOR_KEY, name) for name in properties),
    ]
    rows = runner.fetch_events(context, measure(_plan(context), candidates, events)).rows
    return [_Measured(candidates[row["candidate"] - 1], row) for row in rows]


def _plan(context: QueryContext) -> Plan:
    """Return a new plan, because each statement has its own parameters."""
    return Plan(context.definition, context.params, context.profile)


def _candidates(context: QueryContext, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the properties to measure, those on most events first.

    IDs of people and devices are left out, and so are constants and amounts.
    """
    names = [
        row["name"]
        for row in rows
        if row["values"] >= _MIN_VALUES
        and row["of_most"] <= _MAX_OF_ONE * row["with_id"]
        and row["name"] != context.definition.sequence_property
        and not names_person_or_device(row["name"])
        and not words_of(row["name"]).endswith(_AMOUNTS)
    ]
    yield from names[:_MAX_PROPERTIES]


def _best(measured: Sequence[_Measured]) -> list[_Measured]:
    """Return the proposals. `$visitor` with a property is one only if the property does less well
    alone, because several visitors have the same values.
    """
    if not measured:
        return []
    visitors, *others = measured
    single: dict[Keys, float] = {
        each.keys: each.preference for each in others if len(each.keys) == 1
    }
    proposed = [
        each
        for each in others
        if each.is_proposed(visitors)
        and (len(each.keys) == 1 or each.preference > single[each.keys[1:]])
    ]
    proposed.sort(key=lambda each: (-each.preference, each.keys))
    return proposed[:_MAX_PROPOSALS]


def _record(measured: _Measured) -> AttemptKeyRecord:
    row = measured.row
    share = _ratio(row["with_id"], row["entries"] + row["later"])
    figures = {
        "several_entries": row["several_entries"],
        "several_visitors": row["several_visitors"],
        "split_visitors": row["split"],
    }
    name = " with ".join(measured.keys)
    return AttemptKeyRecord(
        keys=list(measured.keys),
        share=share,
        entry_share=_ratio(row["entries_with_id"], row["entries"]),
        connected=measured.connected,
        attempts=row["attempts"],
        joined_visitors=row["joined"],
        sentence=describe_attempts(name, share, row["attempts"], **figures),
        **figures,
    )


def _advice(events: int, best: Sequence[AttemptKeyRecord]) -> str:
    if not events:
        return "The steps have no events yet, so no property can be proposed."
    if best:
        return f"Best choice: {best[0].sentence}"
    return (
        "No property tells journeys apart better than visitors do. Count visitors, or send an "
        "attempt ID with each event."
    )
