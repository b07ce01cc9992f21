"""The input of a report: stored events, merges of visitors, and what is known about visitors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

TOUCHED = ("utm_source", "utm_medium", "utm_campaign", "link")
"""The fields of a touch that breakdowns and filters read."""


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event.

    name: path, screen, event name or transaction event. fields: built-in fields without their `$`,
    such as `country`. traits: those of its canonical visitor.
    """

    event_id: str
    website_id: str
    kind: str
    name: str
    at_ms: int
    visitor_id: str
    scope_id: str
    source: str = "browser"
    verified: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    traits: Mapping[str, Any] = field(default_factory=dict)
    client_event_id: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """All stored data. merges: (scope, merged visitor) -> canonical visitor, without chains.

    traits: of canonical visitors, by (scope, visitor). cohorts: the visitors of each saved cohort
    by its ID, some of whom may have been merged since.
    """

    events: tuple[Event, ...]
    merges: Mapping[tuple[str, str], str] = field(default_factory=dict)
    traits: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    cohorts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    def visitor(self, event: Event) -> tuple[str, str]:
        """The event's canonical visitor, with its identity scope."""
        return self._canonical(event.scope_id, event.visitor_id)

    def _canonical(self, scope: str, visitor: str) -> tuple[str, str]:
        return scope, self.merges.get((scope, visitor), visitor)

    def read(self, website_ids: Sequence[str], evaluated_at_ms: int) -> list[Event]:
        """Return the events that a report reads. Their fields include the first and last touch, and
        for each saved cohort whether their visitor is in it.
        """
        events = [
            event
            for event in self.events
            if event.website_id in website_ids and event.at_ms <= evaluated_at_ms
        ]
        touches: dict[tuple[str, str], list[Event]] = {}
        for event in sorted(events, key=lambda event: (event.at_ms, event.event_id)):
            if any(event.fields.get(name) for name in (*TOUCHED, "utm_content", "utm_term")):
                touches.setdefault(self.visitor(event), []).append(event)
        return [
            self._with_visitor(_with_touches(event, touches.get(self.visitor(event), [])))
            for event in events
        ]

    def _with_visitor(self, event: Event) -> Event:
        """Return the event with the traits and the cohorts of its visitor."""
        visitor, fields = self.visitor(event), dict(event.fields)
        for cohort_id, members in self.cohorts.items():
            is_member = visitor in {self._canonical(*member) for member in members}
            fields[f"cohort.{cohort_id}"] = "in" if is_member else "out"
        return replace(event, fields=fields, traits=self.traits.get(visitor, {}))


def _with_touches(event: Event, touches: Sequence[Event]) -> Event:
    """Return the event with the first and last touch of its visitor up to its time."""
    before = [touch for touch in touches if touch.at_ms <= event.at_ms]
    if not before:
        return event
    first = {f"first_{name}": before[0].fields.get(name, "") for name in TOUCHED}
    last = {f"last_{name}": before[-1].fields.get(name, "") for name in TOUCHED}
    return replace(event, fields={**event.fields, **first, **last})
