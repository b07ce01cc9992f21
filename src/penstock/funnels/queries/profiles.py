"""Profiles of the retained events, read from all events once and then updated with new events.

Events are summed up by day. A profile needs the number of events before and after a few moments.
Only the days of these moments are read again, and only if they have events on both sides of a
moment.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

from penstock.base.calendar import utc_day
from penstock.base.clock import LATEST_MS
from penstock.base.ids import WebsiteId
from penstock.funnels.queries.history import MAX_PAUSE_MS
from penstock.funnels.queries.versions import DataVersion
from penstock.funnels.statements.query import DataProfile, QueryParams
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

_MAX_SPANS = 200_000
"""Maximum number of spans in memory, which take 200 bytes each. This is enough for ten histories of
50 years.
"""


class EventSpan(NamedTuple):
    """The events of one day: their number, and the times of the first and last."""

    first_ms: int
    last_ms: int
    events: int
    provider_events: int


class Moments(NamedTuple):
    """The times that divide the events of a profile.

    evaluated_at_ms: the last time that is read. history_from_ms: an event from this time on proves
    that history has begun. open_from_ms, open_until_ms: an event from the first time until before
    the second may be an entry whose window is still open.
    """

    evaluated_at_ms: int
    history_from_ms: int
    open_from_ms: int
    open_until_ms: int

    @classmethod
    def from_params(cls, params: QueryParams, window_s: int | None) -> "Moments":
        """Return the moments of a query.

        window_s: conversion window of the funnel; None for unlimited.
        """
        start_ms, evaluated_at_ms = params.start_ms or 0, params.evaluated_at_ms
        open_ms = 0, 0  # a window that never ends does not change with time
        if window_s is not None:
            end_ms = LATEST_MS if params.end_ms is None else params.end_ms
            open_ms = max(evaluated_at_ms - window_s * 1000, start_ms, 0), end_ms
        return cls(evaluated_at_ms, max(start_ms - MAX_PAUSE_MS, 0), *open_ms)

    def divides(self, span: EventSpan) -> bool:
        """Whether events of the span lie on both sides of a moment."""
        firsts = (self.evaluated_at_ms + 1, *self[1:])
        return any(span.first_ms < first_ms <= span.last_ms for first_ms in firsts)


class _Known(NamedTuple):
    """A cached summary of some websites' events up to an insert.

    block: number of the insert. spans: one span for each UTC day. events: total number of events.
    """

    block: int
    spans: Mapping[int, EventSpan]
    events: int


class ProfileReader:
    """Reads the data profile for a data version. Thread-safe. Methods block."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: OrderedDict[tuple[WebsiteId, ...], _Known] = OrderedDict()
        self._lock = Lock()

    def read(self, params: QueryParams, window_s: int | None, version: DataVersion) -> DataProfile:
        """Return the profile of the events at the version, or of newer events.

        window_s: conversion window of the funnel; None for unlimited.
        """
        moments = Moments.from_params(params, window_s)
        known = self._update(params.website_ids, version)
        if known is None:
            spans = _read_spans(self._warehouse, params.website_ids, moments)
            self._keep(params.website_ids, _sum_by_day(version.since.events_block, spans), version)
        else:
            self._keep(params.website_ids, known, version)
            spans = list(self._split(params.website_ids, known.spans.values(), moments))
        profile = _profile_of(spans, moments, window_s, has_aliases=version.aliases > 0)
        return replace(profile, shards=self._warehouse.shards())

    def _update(self, website_ids: tuple[WebsiteId, ...], version: DataVersion) -> _Known | None:
        """Read the new events, and return all events at the version; None after a deletion."""
        with self._lock:
            known = self._known.get(website_ids)
        block = version.since.events_block
        if known is not None and known.block < block:
            parameters = {
                "websites": list(website_ids),
                "after_block": known.block,
                "until_block": block,
            }
            new = _spans(self._warehouse, "new_event_spans", parameters)
            known = _sum_by_day(block, [*known.spans.values(), *new])
        return known if known is not None and known.events == version.events else None

    def _split(
        self, website_ids: tuple[WebsiteId, ...], spans: Iterable[EventSpan], moments: Moments
    ) -> Iterator[EventSpan]:
        """Yield the spans. Spans that contain a moment are read again in parts."""
        for span in spans:
            if moments.divides(span):
                yield from _read_spans(
                    self._warehouse, website_ids, moments, span.first_ms, span.last_ms
                )
            else:
                yield span

    def _keep(
        self, website_ids: tuple[WebsiteId, ...], known: _Known, version: DataVersion
    ) -> None:
        """Keep the events, unless events were inserted or deleted while they were read."""
        if known.events != version.events or not self._warehouse.orders_inserts():
            return
        with self._lock:
            self._known[website_ids] = known
            self._known.move_to_end(website_ids)
            while sum(len(each.spans) for each in self._known.values()) > _MAX_SPANS:
                self._known.popitem(last=False)


def read_profile(
    warehouse: Warehouse, params: QueryParams, window_s: int | None = None
) -> DataProfile:
    """Return the profile of the websites' retained events, read from all of these events."""
    moments = Moments.from_params(params, window_s)
    [[has_aliases]] = warehouse.query(
        load("penstock.funnels.queries", "has_aliases"), {"scopes": list(params.scope_ids)}
    )[1]
    spans = _read_spans(warehouse, params.website_ids, moments)
    profile = _profile_of(spans, moments, window_s, has_aliases=bool(has_aliases))
    return replace(profile, shards=warehouse.shards())


def _read_spans(
    warehouse: Warehouse,
    website_ids: tuple[WebsiteId, ...],
    moments: Moments,
    first_ms: int = 0,
    last_ms: int = LATEST_MS,
) -> list[EventSpan]:
    """Read the spans of the events between two times. None of them contains a moment."""
    parameters = {
        "websites": list(website_ids),
        "first": first_ms,
        "last": last_ms,
        "evaluated_at": moments.evaluated_at_ms,
        "history_from": moments.history_from_ms,
        "open_from": moments.open_from_ms,
        "open_until": moments.open_until_ms,
    }
    return _spans(warehouse, "event_spans", parameters)


def _spans(warehouse: Warehouse, name: str, parameters: Mapping[str, Any]) -> list[EventSpan]:
    rows = warehouse.query(load("penstock.funnels.queries", name), parameters)[1]
    return [EventSpan(*row) for row in rows]


def _sum_by_day(block: int, spans: Iterable[EventSpan]) -> _Known:
    """Return the events up to an insert, with one span for each day."""
    days: dict[int, EventSpan] = {}
    for span in spans:
        day = utc_day(span.first_ms)
        days[day] = _union(days[day], span) if day in days else span
    return _Known(block, days, sum(span.events for span in days.values()))


def _union(first: EventSpan, other: EventSpan) -> EventSpan:
    return EventSpan(
        min(first.first_ms, other.first_ms),
        max(first.last_ms, other.last_ms),
        first.events + other.events,
        first.provider_events + other.provider_events,
    )


def _profile_of(
    spans: Iterable[EventSpan], moments: Moments, window_s: int | None, *, has_aliases: bool
) -> DataProfile:
    """Compute the profile from spans, none of which may contain a moment."""
    read, future = list[EventSpan](), list[EventSpan]()
    for span in spans:
        (read if span.last_ms <= moments.evaluated_at_ms else future).append(span)
    firsts = [span.first_ms for span in read]
    changes = [min(span.first_ms for span in future) - 1] if future else []
    if window_s is not None:
        open_from_ms, open_until_ms = moments.open_from_ms, moments.open_until_ms
        opened = [first_ms for first_ms in firsts if open_from_ms <= first_ms < open_until_ms]
        changes += [first_ms + window_s * 1000 for first_ms in sorted(opened)[:1]]
    return DataProfile(
        events=sum(span.events for span in read),
        first_event_ms=min(firsts, default=None),
        last_event_ms=max((span.last_ms for span in read), default=None),
        has_provider_events=any(span.provider_events for span in read),
        has_aliases=has_aliases,
        holds_until_ms=min(changes, default=None),
        history_start_ms=min(
            (first_ms for first_ms in firsts if first_ms >= moments.history_from_ms), default=None
        ),
        future_until_ms=max((span.last_ms for span in future), default=None),
    )
