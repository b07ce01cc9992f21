"""Trends: a funnel by time of entry."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any

from pydantic import MISSING, Field

from penstock.base.calendar import Interval
from penstock.base.clock import iso
from penstock.base.rates import rate
from penstock.funnels.definitions.model import Definition
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.forecasts.service import Forecasts, forecasts_of
from penstock.funnels.other_tools.rules import Parts
from penstock.funnels.other_tools.schema import LikeFiguresRecord, LikeQuery, LikeRulesRecord
from penstock.funnels.other_tools.service import CountedLike, count_parts_like
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.history import spans_after_last_pause
from penstock.funnels.queries.parameters import check_pair, check_step
from penstock.funnels.queries.provenance import QueryResult, empty_result, head_of
from penstock.funnels.queries.schema import CohortQuery, HeadRecord
from penstock.funnels.results.schema import FiguresRecord, RangeRecord, SettledRecord
from penstock.funnels.results.tally import NOTHING, Tally, figures_of
from penstock.funnels.statements.units import possible_entries, trend
from penstock.http.period import InBuckets
from penstock.http.schema import Rate, Record

_NOTE = (
    "A visitor counts once in each bucket in which it entered, so the buckets do not add up to the "
    "number of visitors in the period."
)


class TrendQuery(CohortQuery, InBuckets, LikeQuery):
    """The query parameters for a trend."""

    step: Annotated[int | None, Field(ge=1, le=19)] = None
    """Also count the units that are lost after this step."""
    from_step: Annotated[int | None, Field(ge=1, le=20)] = None
    """First of two steps between which to count a rate, `between` of each bucket. Requires
    `toStep`.
    """
    to_step: Annotated[int | None, Field(ge=1, le=20)] = None
    """A later step. Requires `fromStep`."""

    forecast: bool = False
    """true: also forecast where the rates of the buckets settle. The first request of a day takes
    longer.
    """

    def pair(self, definition: Definition) -> tuple[int, int] | None:
        """Return the steps between which to count a rate. See `check_pair`."""
        return check_pair(definition, ("fromStep", "toStep"), self.from_step, self.to_step)


class _SpanRecord(Record):
    from_: Annotated[str, Field(alias="from")]
    to: str


class BetweenRecord(Record):
    """The units of a bucket that reached `fromStep` and `toStep`. A rate is null without units."""

    reached: int
    """Eligible units, which are not excluded, that reached `fromStep`."""
    continued: int
    """Those that also reached `toStep`."""
    conversion_rate: Rate | None
    """continued / reached."""
    settled: int
    """Settled units that reached `fromStep`."""
    settled_continued: int
    """Those that also reached `toStep`."""
    settled_rate: Rate | None
    """settledContinued / settled."""
    final_rate: RangeRecord | None
    """Range of the conversion rate once all windows have closed; null if no unit is open."""


class TrendBucketRecord(FiguresRecord, _SpanRecord, SettledRecord):
    """Units that entered at `from` or later, but before `to`."""

    maturing: bool
    """Numbers may still change, because some windows are still open."""
    partial: bool
    """The period covers only part of the bucket."""
    lost: int | None
    """Units that dropped off after `step`; null if the request has no `step`."""
    between: BetweenRecord | None
    """The rate between two steps; null if the request has no `fromStep`."""
    forecast: ForecastRecord | MISSING | None = MISSING
    """Where the rate settles; null if no unit is open, or if fewer than 30 are eligible. Present
    only if the request has `forecast=true`.
    """
    count_like: LikeFiguresRecord | MISSING = MISSING
    """Units that enter in the bucket by the rules of the other tool. Present only if the request
    has `countLike`.
    """


class TrendRecord(HeadRecord):
    """A funnel by time of entry. Each bucket reports on its time span and may be empty.

    Without a period, the trend covers the time from the first entry until now.
    """

    interval: Interval
    timezone: str
    note: str | None
    """Why buckets do not add up to the total of visitors; null for attempts."""
    count_like: LikeRulesRecord | MISSING = MISSING
    """The rules of the other tool. Present only if the request has `countLike`."""
    data: list[TrendBucketRecord]


def read_trend(runner: FunnelQueryRunner, context: QueryContext, query: TrendQuery) -> TrendRecord:
    """Returns the number of units by hour, day, week or month of entry.

    Each bucket contains entered, completed, pending and dropped-off units.
    """
    if query.step is not None:
        check_step(context.definition, query.step)
    pair = query.pair(context.definition)
    forecasts: Forecasts | None = None
    if query.forecast and context.params.start_ms is not None:
        edges = _edges(query, context)[1]
        forecasts = forecasts_of(runner, context, _open_spans(context, edges))
        context = forecasts.context
    query, edges, result = _fetch_trend(runner, context, query)
    if query.forecast and forecasts is None:
        forecasts = forecasts_of(runner, context, _open_spans(context, edges))
        result = _entries(runner, forecasts.context, edges, query) if edges else result
    rows = {row["bucket"]: row for row in result.rows}
    like = _count_like(runner, context, query, edges)
    return TrendRecord(
        **head_of(context, result.provenance),
        interval=query.interval,
        timezone=query.timezone,
        note=None if context.definition.enters_once else _NOTE,
        count_like=MISSING if like is None else like.rules,
        data=[
            _bucket(
                context, start_ms, end_ms, rows.get(start_ms), query.step, pair, forecasts, like
            )
            for start_ms, end_ms in pairwise(edges)
        ],
    )


def _count_like(
    runner: FunnelQueryRunner, context: QueryContext, query: TrendQuery, edges: Sequence[int]
) -> CountedLike | None:
    """Return the numbers of each bucket by the rules of the tool that the query names, if any."""
    earlier = min([0, *edges[:1]]) - 1  # The start of a bucket for entries before the first one.
    return count_parts_like(runner, context, query, Parts((earlier, *edges[:-1])))


def last_entry_ms(runner: FunnelQueryRunner, context: QueryContext) -> int | None:
    """Return the time of the last entry that counts; None without entries."""
    start_ms, end_ms = context.params.start_ms, context.params.end_ms
    edges = (
        [min(context.profile.first_event_ms or 0, 0), context.params.evaluated_at_ms]
        if start_ms is None or end_ms is None
        else [start_ms, end_ms]
    )
    return max((row["last_ms"] for row in _entries(runner, context, edges).rows), default=None)


def _fetch_trend(
    runner: FunnelQueryRunner, context: QueryContext, query: TrendQuery
) -> tuple[TrendQuery, Sequence[int], QueryResult]:
    """Return the query with its interval, the edges of all buckets, and the rows with entries."""
    if context.params.start_ms is not None:
        query, edges = _edges(query, context)
        return query, edges, _entries(runner, context, edges, query)
    first_ms, now_ms = context.profile.first_event_ms, context.params.evaluated_at_ms
    if first_ms is None:
        return query, [], empty_result(context)
    enters_once = context.definition.enters_once
    history = query.edges_or_none(first_ms, now_ms) if enters_once else None
    if history is not None:
        result = _entries(runner, context, history, query)
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
    result = _entries(runner, context, [earlier, *edges], query)
    buckets = [row["bucket"] for row in result.rows if row["bucket"] != earlier]
    edges = edges[bisect_left(edges, buckets[0]) :] if buckets else []
    return query, edges, QueryResult(result.rows, years.provenance + result.provenance)


def _edges(query: TrendQuery, context: QueryContext) -> tuple[TrendQuery, Sequence[int]]:
    """Return the query with its interval, and the edges of all buckets of its period."""
    start_ms, end_ms = context.params.start_ms, context.params.end_ms
    assert start_ms is not None
    assert end_ms is not None
    query = query.fitting(start_ms, end_ms - 1)
    return query, query.edges(start_ms, end_ms - 1, "The period")


def _entries(
    runner: FunnelQueryRunner,
    context: QueryContext,
    edges: Sequence[int],
    query: TrendQuery | None = None,
) -> QueryResult:
    """Count units by the bucket of their entry. A visitor counts once in each bucket.

    query: says what else to count of them.
    """
    starts = edges[:-1]
    step = None if query is None else query.step
    pair = None if query is None else query.pair(context.definition)
    return runner.fetch(
        context,
        lambda profile: trend(context.counted(profile, edges_ms=starts), starts, step, pair),
    )


def _possible_entries(
    runner: FunnelQueryRunner, context: QueryContext, edges: Sequence[int]
) -> QueryResult:
    statement = possible_entries(context.definition, context.params, context.profile, edges[:-1])
    return runner.fetch_events(context, statement)


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


def _bucket(
    context: QueryContext,
    start_ms: int,
    end_ms: int,
    row: Mapping[str, Any] | None,
    step: int | None,
    pair: tuple[int, int] | None,
    forecasts: Forecasts | None,
    like: CountedLike | None,
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
        lost=None if step is None else row["lost"] if row else 0,
        between=None if pair is None else _between(context.definition, row),
        forecast=MISSING
        if forecasts is None
        else row and forecasts.of_bucket(_inside(context, start_ms, end_ms)[0], row),
        count_like=MISSING if like is None else like.figures(start_ms),
    )


def _open_spans(context: QueryContext, edges: Sequence[int]) -> list[tuple[int, int]]:
    """Return those parts of the buckets inside the period whose units may be open."""
    params, window_ms = context.params, (context.definition.window_s or 0) * 1000
    spans = [_inside(context, *span) for span in pairwise(edges)]
    now_ms = params.evaluated_at_ms
    return [span for span in spans if span[0] <= now_ms <= span[1] + window_ms]


def _inside(context: QueryContext, start_ms: int, end_ms: int) -> tuple[int, int]:
    """Return the part of a bucket that the period covers."""
    params = context.params
    if params.start_ms is None or params.end_ms is None:
        return start_ms, end_ms
    return max(start_ms, params.start_ms), min(end_ms, params.end_ms)


def _between(definition: Definition, row: Mapping[str, Any] | None) -> BetweenRecord:
    names = ("reached_from", "reached_to", "settled_from", "settled_to")
    reached, continued, settled, settled_continued = (row[name] if row else 0 for name in names)
    return BetweenRecord(
        reached=reached,
        continued=continued,
        conversion_rate=rate(continued, reached),
        settled=settled,
        settled_continued=settled_continued,
        settled_rate=rate(settled_continued, settled),
        final_rate=row and _final_rate(definition, row),
    )


def _final_rate(definition: Definition, row: Mapping[str, Any]) -> RangeRecord | None:
    """Return the range of the rate between two steps once all windows have closed.

    At the least, no open unit continues, and those that have may still be excluded. At the most,
    all open units continue. None if no unit is open, or all units are excluded for good.
    """
    before, unfinished = row["open_before"], row["open_from"]
    may_be_excluded = row["open_to"] if definition.excludes else 0
    reached = row["reached_from"] + before
    if not reached or not (before or unfinished or may_be_excluded):
        return None
    unexcluded = reached - may_be_excluded
    lower = (row["reached_to"] - may_be_excluded) / unexcluded if unexcluded else 0.0
    return RangeRecord.rounded((lower, (row["reached_to"] + unfinished + before) / reached))
