"""Computes trends by time of entry, times between steps, and next events of stopped units."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from penstock.base.clock import MS_PER_MINUTE, iso
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
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.history import spans_after_last_pause
from penstock.funnels.queries.parameters import check_step, unfit_parameters
from penstock.funnels.queries.provenance import QueryResult, empty_result, head_of
from penstock.funnels.results.tally import NOTHING, Tally, figures_of
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.units import (
    Outcome,
    next_events,
    possible_entries,
    timing,
    trend,
)

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BIN_EDGES_MS = (
    0,
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 4, 8, 12)),
    *(n * _DAY for n in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365)),
)
"""Starts of the bins of a histogram: familiar durations, each about twice the previous duration."""

_DURATIONS = tuple(name for name in DurationsRecord.model_fields if name.endswith("_minutes"))
_NOTE = (
    "A visitor counts once in each bucket in which it entered, so the buckets do not add up to the "
    "number of visitors in the period."
)


def read_trend(runner: FunnelQueryRunner, context: QueryContext, query: TrendQuery) -> TrendRecord:
    """Returns the number of units by hour, day, week or month of entry.

    Each bucket contains entered, completed, pending and dropped-off units.
    """
    query, edges, result = _fetch_trend(runner, context, query)
    rows = {row["bucket"]: row for row in result.rows}
    return TrendRecord.model_validate(
        {
            **head_of(context, result.provenance),
            "interval": query.interval,
            "timezone": query.timezone,
            "note": None if context.definition.enters_once else _NOTE,
            "data": [
                _bucket(context, start_ms, end_ms, rows.get(start_ms))
                for start_ms, end_ms in pairwise(edges)
            ],
        }
    )


def _fetch_trend(
    runner: FunnelQueryRunner, context: QueryContext, query: TrendQuery
) -> tuple[TrendQuery, Sequence[int], QueryResult]:
    """Return the query with its interval, the edges of all buckets, and the rows with entries."""
    start_ms, end_ms = context.params.start_ms, context.params.end_ms
    if start_ms is not None and end_ms is not None:
        query = query.fitting(start_ms, end_ms - 1)
        edges = query.edges(start_ms, end_ms - 1, "The period")
        return query, edges, _entries(runner, context, edges)
    first_ms, now_ms = context.profile.first_event_ms, context.params.evaluated_at_ms
    if first_ms is None:
        return query, [], empty_result(context)
    enters_once = context.definition.enters_once
    history = query.edges_or_none(first_ms, now_ms) if enters_once else None
    if history is not None:
        result = _entries(runner, context, history)
        rows = _after_last_pause(result)
        edges = history[bisect_left(history, rows[0]["bucket"]) :] if rows else []
        return query, edges, result
    # Find the years with entries before counting. An attempt or a run has only one entry. A visitor
    # may have several, and a count by year would find only the best of them.
    find = _entries if enters_once else _possible_entries
    years = find(runner, context, _years(first_ms, now_ms))
    rows = _after_last_pause(years)
    if not rows:
        return query, [], years
    query = query.fitting(rows[0]["first_ms"], now_ms)
    edges = query.edges(rows[0]["first_ms"], now_ms, "The time from the first entry to now")
    earlier = min(edges[0], 0) - 1  # The start of a bucket for entries before the last pause.
    result = _entries(runner, context, [earlier, *edges])
    buckets = [row["bucket"] for row in result.rows if row["bucket"] != earlier]
    edges = edges[bisect_left(edges, buckets[0]) :] if buckets else []
    return query, edges, QueryResult(result.rows, years.provenance + result.provenance)


def _entries(runner: FunnelQueryRunner, context: QueryContext, edges: Sequence[int]) -> QueryResult:
    """Count units by the bucket of their entry. A visitor counts once in each bucket."""
    starts = edges[:-1]
    return runner.fetch(
        context, lambda profile: trend(context.counted(profile, edges_ms=starts), starts)
    )


def _possible_entries(
    runner: FunnelQueryRunner, context: QueryContext, edges: Sequence[int]
) -> QueryResult:
    statement = possible_entries(context.definition, context.params, context.profile, edges[:-1])
    return runner.fetch_events(context, statement)


def read_timing(
    runner: FunnelQueryRunner, context: QueryContext, query: TimingQuery
) -> TimingRecord:
    """Returns the times between steps and overall, with exact quantiles and histograms."""
    n = len(context.definition.steps)
    extra = _requested_pair(query, n)
    pairs = [(1, n), *pairwise(range(1, n + 1)), *extra]
    result = runner.fetch(
        context, lambda profile: timing(context.counted(profile), pairs, BIN_EDGES_MS)
    )
    [row] = result.rows
    overall, *others = [_durations(pair, row, index) for index, pair in enumerate(pairs)]
    return TimingRecord.model_validate(
        {
            **head_of(context, result.provenance),
            "overall": overall,
            "steps": others[: n - 1],
            "pair": others[n - 1] if extra else None,
        }
    )


def read_next(runner: FunnelQueryRunner, context: QueryContext, query: NextQuery) -> NextRecord:
    """Returns the most frequent events of units after the step at which they stopped."""
    check_step(context.definition, query.step)
    outcome = None if query.outcome is None else Outcome(query.outcome)
    counts_attempts = context.definition.counting_unit is CountingUnit.ATTEMPT
    result = runner.fetch(
        context,
        lambda profile: next_events(
            context.counted(profile),
            query.step,
            outcome,
            query.page_size,
            of_visitors=query.of == "visitor" and counts_attempts,
        ),
    )
    total, *rows = result.rows
    return NextRecord.model_validate(
        {
            **head_of(context, result.provenance),
            "step": query.step,
            "stopped": total["stopped"],
            "silent": total["stopped"] - total["units"],
            "data": [_next_event(row, total["stopped"]) for row in rows],
        }
    )


def _after_last_pause(result: QueryResult) -> Sequence[Mapping[str, Any]]:
    """Return the rows after the last pause of over two years. Earlier times must be wrong."""
    spans = [(row["first_ms"], row["last_ms"]) for row in result.rows]
    return result.rows[len(spans) - len(spans_after_last_pause(spans)) :]


def _years(first_ms: int, last_ms: int) -> list[int]:
    """Return the edges of the UTC calendar years that cover a time span."""
    first, last = (datetime.fromtimestamp(at_ms / 1000, UTC).year for at_ms in (first_ms, last_ms))
    return [
        round(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000)
        for year in range(first, last + 2)
    ]


def _next_event(row: Mapping[str, Any], stopped: int) -> NextEventRecord:
    return NextEventRecord(
        type=TYPES[row["kind"]],
        name=row["name"],
        units=row["units"],
        events=row["events"],
        first=row["first_units"],
        share=rate(row["units"], stopped),
    )


def _bucket(
    context: QueryContext, start_ms: int, end_ms: int, row: Mapping[str, Any] | None
) -> TrendBucketRecord:
    params, window_s = context.params, context.definition.window_s
    is_cut = (
        params.start_ms is not None
        and params.end_ms is not None
        and (start_ms < params.start_ms or end_ms > params.end_ms)
    )
    last_entry_ms = (end_ms if params.end_ms is None else min(end_ms, params.end_ms)) - 1
    return TrendBucketRecord(
        from_=iso(start_ms),
        to=iso(end_ms),
        **figures_of(Tally.of_totals(row) if row else NOTHING, TrendBucketRecord),
        maturing=window_s is None or params.evaluated_at_ms <= last_entry_ms + window_s * 1000,
        partial=is_cut,
    )


def _requested_pair(query: TimingQuery, n: int) -> list[tuple[int, int]]:
    """Return the requested pair of steps, `from` and `to`, if any."""
    first, last = query.from_, query.to
    if first is None and last is None:
        return []
    if first is None or last is None:
        missing = "from" if first is None else "to"
        raise unfit_parameters({missing: "Send from and to together. from is the earlier step."})
    faults = {
        name: f"This funnel has {n} steps."
        for name, step in (("from", first), ("to", last))
        if step > n
    }
    if not faults and last <= first:
        faults = {"to": "Must be a later step than from."}
    if faults:
        raise unfit_parameters(faults)
    return [(first, last)]


def _durations(pair: tuple[int, int], row: Mapping[str, Any], index: int) -> DurationsRecord:
    units = row[f"units_{index}"]
    minutes: Sequence[float | None] = (None,) * len(_DURATIONS)
    if units:
        mean, shortest, longest = (row[f"{name}_{index}"] for name in ("mean", "min", "max"))
        durations_ms = (mean, shortest, *row[f"quantiles_{index}"], longest)
        minutes = [duration_ms / MS_PER_MINUTE for duration_ms in durations_ms]
    return DurationsRecord(
        from_=pair[0],
        to=pair[1],
        units=units,
        histogram=_histogram(dict(row[f"bins_{index}"])),
        **dict(zip(_DURATIONS, minutes, strict=True)),
    )


def _histogram(units: Mapping[int, int]) -> list[BinRecord]:
    """Return all bins between the first and the last with units, including empty ones.

    units: number of units by start of the bin, without empty bins.
    """
    if not units:
        return []
    ends = dict(zip(BIN_EDGES_MS, (*BIN_EDGES_MS[1:], None), strict=True))
    first, last = min(units), max(units)
    return [
        BinRecord(
            from_minutes=start / MS_PER_MINUTE,
            to_minutes=None if (end := ends[start]) is None else end / MS_PER_MINUTE,
            units=units.get(start, 0),
        )
        for start in BIN_EDGES_MS
        if first <= start <= last
    ]
