"""Times between steps, with their histograms."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field

from penstock.base.clock import MS_PER_MINUTE
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import check_pair
from penstock.funnels.queries.provenance import head_of
from penstock.funnels.queries.schema import CohortQuery, HeadRecord
from penstock.funnels.statements.units import timing
from penstock.http.schema import Record

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BIN_EDGES_MS = (
    0,
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 4, 8, 12)),
    *(n * _DAY for n in (1, 2, 4, 7, 14, 30, 60, 90, 180, 365)),
)
"""Starts of the bins of a histogram: familiar durations, each about twice the previous duration."""


EQUAL_BINS = 12
"""Number of bins of equal length, without the last one, which has no end."""


class TimingQuery(CohortQuery):
    """The query parameters for times between steps."""

    from_: Annotated[int | None, Field(alias="from", ge=1, le=20)] = None
    """First step of an additional pair of steps. Requires `to`."""
    to: Annotated[int | None, Field(ge=1, le=20)] = None
    """A later step. Requires `from`."""
    bin_seconds: Annotated[int | None, Field(ge=1, le=31_536_000)] = None
    """Length of the bins of the histograms, of which there are up to 12. Longer times are in a last
    bin without an end. By default, the limits are round and each is about twice the previous one.
    """


class BinRecord(Record):
    from_minutes: float
    to_minutes: float | None
    """End of the bin, exclusive; null if there is no end."""
    units: int


class DurationsRecord(Record):
    """Exact times from one completed step to another. Figures are null if there are no units."""

    from_: Annotated[int, Field(alias="from")]
    to: int
    units: int
    mean_minutes: float | None
    min_minutes: float | None
    p25_minutes: float | None
    median_minutes: float | None
    p75_minutes: float | None
    p90_minutes: float | None
    p95_minutes: float | None
    max_minutes: float | None
    histogram: list[BinRecord]


class TimingRecord(HeadRecord):
    """Times between steps. pair: times between the steps `from` and `to` of the request, if any."""

    overall: DurationsRecord
    steps: list[DurationsRecord]
    pair: DurationsRecord | None


_DURATIONS = tuple(name for name in DurationsRecord.model_fields if name.endswith("_minutes"))


def read_timing(
    runner: FunnelQueryRunner, context: QueryContext, query: TimingQuery
) -> TimingRecord:
    """Returns the times between steps and overall, with exact quantiles and histograms."""
    n = len(context.definition.steps)
    extra = check_pair(context.definition, ("from", "to"), query.from_, query.to)
    pairs = [(1, n), *pairwise(range(1, n + 1)), *([extra] if extra else [])]
    edges_ms = _edges_ms(query.bin_seconds)
    result = runner.fetch(
        context, lambda profile: timing(context.counted(profile), pairs, edges_ms)
    )
    [row] = result.rows
    overall, *others = [_durations(pair, row, index, edges_ms) for index, pair in enumerate(pairs)]
    return TimingRecord(
        **head_of(context, result.provenance),
        overall=overall,
        steps=others[: n - 1],
        pair=others[n - 1] if extra else None,
    )


def _edges_ms(bin_seconds: int | None) -> Sequence[int]:
    if bin_seconds is None:
        return BIN_EDGES_MS
    return range(0, (EQUAL_BINS + 1) * bin_seconds * _SECOND, bin_seconds * _SECOND)


def _durations(
    pair: tuple[int, int], row: Mapping[str, Any], index: int, edges_ms: Sequence[int]
) -> DurationsRecord:
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
        histogram=_histogram(dict(row[f"bins_{index}"]), edges_ms),
        **dict(zip(_DURATIONS, minutes, strict=True)),
    )


def _histogram(units: Mapping[int, int], edges_ms: Sequence[int]) -> list[BinRecord]:
    """Return all bins between the first and the last with units, including empty ones.

    units: number of units by start of the bin, without empty bins. edges_ms: starts of all bins.
    """
    if not units:
        return []
    ends = dict(zip(edges_ms, (*edges_ms[1:], None), strict=True))
    first, last = min(units), max(units)
    return [
        BinRecord(
            from_minutes=start / MS_PER_MINUTE,
            to_minutes=None if (end := ends[start]) is None else end / MS_PER_MINUTE,
            units=units.get(start, 0),
        )
        for start in edges_ms
        if first <= start <= last
    ]
