"""Forecasts of the open units of a report. Source: forecast rules.

numpy is imported only when a forecast is made, because importing it would delay every start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any

from msgspec import json
from pydantic import MISSING

from penstock.base.ids import WorkspaceId
from penstock.funnels.forecasts import store
from penstock.funnels.forecasts.model import ALL, ChanceTable, DayRecord
from penstock.funnels.forecasts.schema import (
    ForecastRecord,
    HistoryRecord,
    NoForecast,
    PastForecastRecord,
    PastForecastsQuery,
    PastForecastsRecord,
)
from penstock.funnels.late_events import late_share
from penstock.funnels.pipeline import FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import empty_result, head_of
from penstock.funnels.statements import figures
from penstock.funnels.statements.forecasts import courses
from penstock.settings import DAY_S

if TYPE_CHECKING:
    from penstock.funnels.forecasts.estimate import Counts, Period, Shape

DAY_MS = DAY_S * 1000
LISTED_DAYS = 30
"""Length of the period that the list of funnels shows at first."""
_MANY_LATE = 0.1
_MAX_EDGES_MS = 1_500 * DAY_MS
_MAX_CHARS = 2_000_000
"""Maximum length of a record that is kept."""
_TOLERANCE = 0.01
"""Days by which a period may be longer than whole days and still count as long as these."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecasts of one question, from the record of its day. reason: why there are none.

    context: the query, which also counts pending units by age.
    """

    context: QueryContext
    record: DayRecord | None
    reason: NoForecast | None = None

    def of_report(self, row: Row) -> list[ForecastRecord | None]:
        """Return the forecasts of the steps after the first. row: figures of all units."""
        later = range(2, len(row["counts"]) + 1)
        if not _open_units(row):
            return [None for _ in later]
        table = self.table(ALL)
        if table is None or not table.rates:
            return [self.none(table) for _ in later]
        if self.context.params.cohort and _eligible(row) < _min_eligible():
            return [None for _ in later]
        return self._forecasts(table, _counts_of_report(self.context, table, row))

    def of_cohort(self, texts: Sequence[str], row: Row) -> ForecastRecord | None:
        """Return the forecast of a cohort. texts: its tagged entry values."""
        from penstock.funnels.forecasts.making import cohort_key

        if not _open_units(row) or _eligible(row) < _min_eligible():
            return None
        table = self.table(cohort_key(texts))
        if table is None or not table.rates:
            return self.none(table)
        return self._forecasts(table, _counts_of_report(self.context, table, row))[-1]

    def of_bucket(self, start_ms: int, row: Row) -> ForecastRecord | None:
        """Return the forecast of a bucket of a trend."""
        from penstock.funnels.forecasts.applying import counts_of_bucket

        is_open = row["pending"] + row["reopened"] + row["reopened_excluded"]
        if not is_open or row["entered"] - row["excluded"] < _min_eligible():
            return None
        table = self.table(str(start_ms))
        if table is None or not table.rates:
            return self.none(table)
        return self._forecasts(table, counts_of_bucket(table, row, figures.read_ages(row)))[0]

    def table(self, key: str) -> ChanceTable | None:
        """Return the chances of all units, of a cohort or of a bucket."""
        return None if self.record is None else self.record.tables.get(key)

    def none(self, table: ChanceTable | None) -> ForecastRecord:
        """Return the reason for having no forecast. table: chances without rates, if any."""
        if self.record is None:
            return ForecastRecord(reason=self.reason or NoForecast.NOT_READY)
        missing = NoForecast.LEFT_OUT if table is None else NoForecast.TOO_LITTLE_HISTORY
        return ForecastRecord(reason=missing)

    def _forecasts(self, table: ChanceTable, counts: "Counts") -> list[ForecastRecord | None]:
        from penstock.funnels.forecasts.applying import apply_table

        assert self.record is not None
        record = self.record
        history = HistoryRecord(
            units=table.units,
            from_=table.from_ms,
            until=table.until_ms,
            of_cohort=table.of_cohort,
            **({"share": record.share} if record.share < 1 else {}),
        )
        late = {"late_share": record.late_share} if record.late_share > _MANY_LATE else {}
        forecasts = apply_table(table, _shape(self.context), counts, record.share)
        return [
            self.none(table)
            if forecast is None
            else ForecastRecord(
                **forecast,
                history=history,
                replays=len(of_rate.replays),
                mean_error=round(100 * of_rate.mean_error, 2),
                held_share=of_rate.held_share,
                intervals=len(of_rate.inside),
                inside=sum(of_rate.inside),
                **late,
            )
            for of_rate, forecast in zip(table.rates, forecasts, strict=True)
        ]


def latest_forecasts(
    runner: FunnelQueryRunner, workspace_id: WorkspaceId
) -> Mapping[tuple[str, int], ForecastRecord | None]:
    """Return the forecasts of saved funnels that the worker made within a day, by ID and revision.

    They are about the last `LISTED_DAYS` days. None if no unit was open, or without a window. Makes
    none itself.
    """
    with runner.database.read() as db:
        contents = store.latest(db, workspace_id, runner.now_ms() - DAY_MS)
    return {
        key: None if content is None else ForecastRecord.model_validate_json(content)
        for key, content in contents.items()
    }


def read_replays(
    runner: FunnelQueryRunner, context: QueryContext, query: PastForecastsQuery
) -> PastForecastsRecord:
    """Returns how earlier forecasts did: the forecast, its interval and the truth, by day.

    A forecast is only as good as its record. Each was made from what was known on its day.
    """
    context = context.with_params(settled=False)
    forecasts = forecasts_of(runner, context, may_be_over=False)
    now_ms = forecasts.record.evaluated_at_ms if forecasts.record else 0
    table = forecasts.table(ALL)
    last = table.rates[-1] if table is not None and table.rates else None
    return PastForecastsRecord(
        **head_of(context, empty_result(context).provenance),
        reason=MISSING if last else forecasts.none(table).reason,
        mean_error=None if last is None else round(100 * last.mean_error, 2),
        held_share=None if last is None else last.held_share,
        data=[
            PastForecastRecord(
                **replay._asdict(), at=now_ms - replay.days * DAY_MS, held=replay.is_inside
            )
            for replay in (last.replays if last else ())
        ],
    )


def _open_units(row: Row) -> int:
    return sum(row["pendings"]) + sum(row["reopened"]) + int(row["reopened_excluded"])


def _eligible(row: Row) -> int:
    return int(row["counts"][0]) - sum(row["excluded"])


def _min_eligible() -> int:
    from penstock.funnels.forecasts.estimate import MIN_ELIGIBLE

    return MIN_ELIGIBLE


def _counts_of_report(context: QueryContext, table: ChanceTable, row: Row) -> "Counts":
    from penstock.funnels.forecasts.applying import counts_of_report

    return counts_of_report(table, _shape(context), row, figures.read_ages(row))


Span = tuple[int, int]
"""Start and end of a bucket, in milliseconds since 1970."""


def forecasts_of(
    runner: FunnelQueryRunner,
    context: QueryContext,
    buckets: Sequence[Span] | None = None,
    *,
    can_make: bool = True,
    may_be_over: bool = True,
) -> Forecasts:
    """Return the forecasts of a question, from a record of the last day or a new one.

    buckets: those of a trend that may have open units; None for a report. can_make: whether to make
    a new record, which takes longer than a report. may_be_over: whether to make none for a period
    without open units. Raises the same errors as
    `FunnelQueryRunner.fetch`.
    """
    definition, params = context.definition, context.params
    if definition.window_s is None:
        return Forecasts(context, None, NoForecast.NO_WINDOW)
    last_ms = params.evaluated_at_ms if params.end_ms is None else params.end_ms
    if may_be_over and (
        params.settled or last_ms + definition.window_s * 1000 < params.evaluated_at_ms
    ):
        return Forecasts(context, None)  # No unit is open.
    question = _question(context, buckets)
    record = find_record(runner, context, question)
    if record is None:
        if context.only_cached or not can_make:
            return Forecasts(context, None)
        minute = context.params.evaluated_at_ms // 60_000
        key = (context.workspace_id, question, minute)
        record = runner.once(key, lambda: _make_record(runner, context, buckets, question))
    ages = {0, *(cut for table in record.tables.values() for cut in table.cuts_ms)}
    return Forecasts(context.with_params(ages_ms=tuple(sorted(ages))), record)


def _make_record(
    runner: FunnelQueryRunner,
    context: QueryContext,
    buckets: Sequence[Span] | None,
    question: str,
) -> DayRecord:
    record = make_day(runner, context, buckets)
    keep_record(runner, context, question, record)
    return record


def _shape(context: QueryContext) -> "Shape":
    from penstock.funnels.forecasts.estimate import Shape

    definition = context.definition
    return Shape(
        len(definition.steps),
        (definition.window_s or 0) * 1000,
        definition.excludes,
        definition.enters_once,
    )


def _period(context: QueryContext) -> "Period":
    from penstock.funnels.forecasts.estimate import SELECTED, Period

    params = context.params
    cohort = SELECTED if params.cohort else None
    return Period(params.evaluated_at_ms, params.start_ms, params.end_ms, cohort)


def _question(context: QueryContext, buckets: Sequence[Span] | None) -> str:
    """Return a hash of all that determines a record, except the data and the exact time.

    A period that moves with the time is the same question as long as its length in days and its age
    are.
    """
    params = context.params
    now_ms = params.evaluated_at_ms

    def age(end_ms: int | None) -> int:
        """Days since the last unit could enter."""
        return max(now_ms - (now_ms if end_ms is None else end_ms), 0) // DAY_MS

    length = None
    if params.start_ms is not None:
        until_ms = min(params.end_ms or now_ms, now_ms)
        length = ceil((until_ms - params.start_ms) / DAY_MS - _TOLERANCE)
    parts = (
        context.rules,
        sorted(params.website_ids),
        sorted(params.cohort.items()),
        (length, age(params.end_ms))
        if buckets is None
        else [(start_ms, age(end_ms)) for start_ms, end_ms in buckets],
    )
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def find_record(
    runner: FunnelQueryRunner, context: QueryContext, question: str
) -> DayRecord | None:
    """Return the record of a question from the day before its evaluation, if there is one."""
    now_ms = context.params.evaluated_at_ms
    with runner.database.read() as db:
        within = range(now_ms - DAY_MS + 1, now_ms + 1)
        content = store.find(db, context.workspace_id, question, within)
    return None if content is None else json.decode(content, type=DayRecord)


def keep_record(
    runner: FunnelQueryRunner, context: QueryContext, question: str, record: DayRecord
) -> None:
    """Keep a record for a day, unless it is too large."""
    content, written_ms = json.encode(record).decode(), runner.now_ms()
    if len(content) > _MAX_CHARS:
        return
    with runner.database.write() as db:
        store.save(
            db,
            context.workspace_id,
            question,
            content,
            evaluated_ms=record.evaluated_at_ms,
            written_ms=written_ms,
            expired_ms=written_ms - DAY_MS,
        )


def make_day(
    runner: FunnelQueryRunner, context: QueryContext, buckets: Sequence[Span] | None = None
) -> DayRecord:
    """Read the history of a question, and make the record of a day."""
    from penstock.funnels.forecasts import making
    from penstock.funnels.forecasts.estimate import Period

    shape, period = _shape(context), _period(context)
    check = runner.deadline()
    rows = _read_courses(runner, context, shape, period)
    read = making.courses_of(rows, shape.steps)
    parts: dict[str, Period] = {}
    if buckets is not None:
        parts = {
            str(start_ms): replace(period, start_ms=start_ms, end_ms=end_ms)
            for start_ms, end_ms in buckets[-making.MAX_BUCKETS :]
        }
    elif context.definition.breakdown_properties:
        parts = {
            making.cohort_key(rows[cohort]["texts"]): replace(period, cohort=cohort)
            for cohort in making.largest_cohorts(read, shape, period)
        }
    whole = period if buckets is None else None
    tables = making.make_record(read, shape, whole, parts, check)
    settled_ms = period.now_ms - shape.window_ms
    late = late_share(runner, context, settled_ms - shape.reach_ms, settled_ms)
    return DayRecord(period.now_ms, read.share, late, tables)


def _read_courses(
    runner: FunnelQueryRunner, context: QueryContext, shape: "Shape", period: "Period"
) -> list[Row]:
    """Read the courses of all units of the replays and of the period, by cohort."""
    from penstock.funnels.forecasts import making

    start_ms, now_ms = making.reads_from_ms(shape, period), period.now_ms
    end_ms = None if start_ms is None else now_ms + 1
    moved = runner.move(context, start_ms, end_ms, now_ms)
    edges_ms = None
    if not shape.enters_once:
        first_ms = moved.profile.first_event_ms or now_ms
        edges_ms = _edges_ms(period, shape.window_ms, first_ms if start_ms is None else start_ms)
    rows: list[Row] = []

    def read(blocks: RowBlocks) -> None:
        rows.clear()
        for block in blocks:
            rows.extend(block)

    runner.stream(
        moved,
        lambda profile: courses(moved.counted(profile, edges_ms=edges_ms), making.MAX_UNITS),
        read,
    )
    return rows


def _edges_ms(period: "Period", window_ms: int, from_ms: int) -> list[int]:
    """Return the limits between which a visitor counts once: days, as the period, the history and
    their replays begin and end.
    """
    ends = {period.now_ms, period.until_ms, period.now_ms - window_ms}
    ends |= set() if period.start_ms is None else {min(period.start_ms, period.now_ms)}
    first_ms = max(from_ms, period.now_ms - _MAX_EDGES_MS)
    edges = {
        end_ms - days * DAY_MS for end_ms in ends for days in range((end_ms - first_ms) // DAY_MS)
    }
    return sorted({min(from_ms, 0) - 1, *edges})
