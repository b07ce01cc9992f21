"""Units over time: trends by entry, times between steps, what those did next who stopped."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from penstock.base.clock import iso
from penstock.base.ids import WorkspaceId
from penstock.base.rates import rate
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.insights.schema import (
    BinRecord,
    DurationsRecord,
    NextEventRecord,
    NextQuery,
    NextRecord,
    TimingQuery,
    TimingRecord,
    TrendBucketRecord,
    TrendQuery,
    TrendRecord,
)
from penstock.funnels.results.asking import Asker, bad_parameters
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.results.report import MS_PER_MINUTE
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.units import Outcome, next_events, timing, trend

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BIN_EDGES_MS = (
    0,
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 4, 8, 12)),
    *(n * _DAY for n in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365)),
)
"""Beginnings of a histogram's bins: durations that people name, each about twice the one before."""


class InsightService:
    """Its methods block; call them from a worker thread. Errors as of `Asker.saved`, and Malformed for parameters that do not fit."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def trend(self, workspace_id: WorkspaceId, funnel_id: str, query: TrendQuery) -> TrendRecord:
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        edges = _edges(inquiry, query)
        found: dict[int, Mapping[str, Any]] = {}
        if edges:
            statement = trend(_counted(inquiry), edges[:-1])
            found = {record["bucket"]: record for record in self._asker.records(statement, inquiry)}
        buckets = list(pairwise(edges))
        if inquiry.question.start_ms is None and found:  # without a period: from the first entry to the last
            buckets = [(start, end) for start, end in buckets if min(found) <= start <= max(found)]
        elif inquiry.question.start_ms is None:
            buckets = []
        now_ms = self._asker.now_ms()
        data = [_bucket(inquiry, now_ms, start_ms, end_ms, found.get(start_ms)) for start_ms, end_ms in buckets]
        return TrendRecord.model_validate({**inquiry.head, "interval": query.interval, "timezone": query.timezone, "data": data})

    def timing(self, workspace_id: WorkspaceId, funnel_id: str, query: TimingQuery) -> TimingRecord:
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        n = len(inquiry.definition.steps)
        pairs = [(1, n), *((step, step + 1) for step in range(1, n)), *_asked_pair(query, n)]
        [record] = self._asker.records(timing(_counted(inquiry), pairs, BIN_EDGES_MS), inquiry)
        overall, *others = [_durations(pair, record, place) for place, pair in enumerate(pairs)]
        asked = others[n - 1] if len(others) == n else None
        return TimingRecord.model_validate({**inquiry.head, "overall": overall, "steps": others[: n - 1], "asked": asked})

    def next(self, workspace_id: WorkspaceId, funnel_id: str, query: NextQuery) -> NextRecord:
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        n = len(inquiry.definition.steps)
        if query.step >= n:
            raise bad_parameters({"step": f"This funnel has {n} steps; units can stop after 1 to {n - 1}."})
        outcome = None if query.outcome is None else Outcome(query.outcome)
        of_visitors = query.of == "visitor" and inquiry.definition.counting_unit is CountingUnit.ATTEMPT
        statement = next_events(_counted(inquiry), query.step, outcome, query.page_size, of_visitors=of_visitors)
        total, *rows = self._asker.records(statement, inquiry)
        data = [
            NextEventRecord(
                type=TYPES[row["kind"]],
                name=row["name"],
                units=row["units"],
                events=row["events"],
                first=row["first_units"],
                share=rate(row["units"], total["stopped"]),
            )
            for row in rows
        ]
        silent = total["stopped"] - total["units"]
        return NextRecord.model_validate({**inquiry.head, "step": query.step, "stopped": total["stopped"], "silent": silent, "data": data})


def _counted(inquiry: Inquiry) -> CountedUnits:
    return CountedUnits(inquiry.definition, inquiry.question, inquiry.facts)


def _edges(inquiry: Inquiry, query: TrendQuery) -> list[int]:
    """Edges of the buckets of the period, or of the retained history; none when nothing is retained."""
    question, facts = inquiry.question, inquiry.facts
    first_ms, last_ms = question.start_ms, None if question.end_ms is None else question.end_ms - 1
    if first_ms is None or last_ms is None:
        if facts.first_event_ms is None or facts.last_event_ms is None:
            return []
        first_ms, last_ms = facts.first_event_ms, facts.last_event_ms
    return query.edges(first_ms, last_ms, "The period" if question.start_ms is not None else "The retained history")


def _bucket(inquiry: Inquiry, now_ms: int, start_ms: int, end_ms: int, record: Mapping[str, Any] | None) -> TrendBucketRecord:
    question, window_s = inquiry.question, inquiry.definition.window_s
    entered, completed, pending = (record[name] if record else 0 for name in ("entered", "completed", "pending"))
    cut = question.start_ms is not None and question.end_ms is not None and (start_ms < question.start_ms or end_ms > question.end_ms)
    return TrendBucketRecord(
        from_=iso(start_ms),
        to=iso(end_ms),
        entered=entered,
        completed=completed,
        pending=pending,
        dropped_off=entered - completed - pending,
        conversion_rate=rate(completed, entered),
        median_completion_minutes=record["median_ms"] / MS_PER_MINUTE if record and completed else None,
        maturing=window_s is None or now_ms <= end_ms - 1 + window_s * 1000,
        partial=cut,
    )


def _asked_pair(query: TimingQuery, n: int) -> list[tuple[int, int]]:
    first, last = query.from_, query.to
    if first is None and last is None:
        return []
    if first is None or last is None:
        raise bad_parameters({"from" if first is None else "to": "Give from and to together: two steps, the earlier one first."})
    faults = {name: f"This funnel has {n} steps." for name, step in (("from", first), ("to", last)) if step > n}
    if not faults and last <= first:
        faults = {"to": "Must be a later step than from."}
    if faults:
        raise bad_parameters(faults)
    return [(first, last)]


def _durations(pair: tuple[int, int], record: Mapping[str, Any], place: int) -> DurationsRecord:
    units = record[f"units_{place}"]
    figures: Sequence[float | None] = (None,) * 8
    if units:
        told = (record[f"mean_{place}"], record[f"least_{place}"], *record[f"quantiles_{place}"], record[f"most_{place}"])
        figures = [figure / MS_PER_MINUTE for figure in told]
    mean, least, p25, median, p75, p90, p95, most = figures
    return DurationsRecord(
        from_=pair[0],
        to=pair[1],
        units=units,
        mean_minutes=mean,
        min_minutes=least,
        p25_minutes=p25,
        median_minutes=median,
        p75_minutes=p75,
        p90_minutes=p90,
        p95_minutes=p95,
        max_minutes=most,
        histogram=_histogram(*record[f"bins_{place}"]),
    )


def _histogram(starts_ms: Sequence[int], counts: Sequence[int]) -> list[BinRecord]:
    """Bins from the first that holds a unit to the last, those between them without any included."""
    if not starts_ms:
        return []
    units = dict(zip(starts_ms, counts, strict=True))
    ends = dict(zip(BIN_EDGES_MS, (*BIN_EDGES_MS[1:], None), strict=True))
    return [
        BinRecord(
            from_minutes=start / MS_PER_MINUTE,
            to_minutes=None if (end := ends[start]) is None else end / MS_PER_MINUTE,
            units=units.get(start, 0),
        )
        for start in BIN_EDGES_MS
        if min(units) <= start <= max(units)
    ]
