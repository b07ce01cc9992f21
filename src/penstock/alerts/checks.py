"""Judges the periods of an alert. All rates come from the table of questions.

A verdict is final: an open unit, whatever it does, cannot reverse it. A rate is below a level if
even its upper bound is, and above it if even its lower bound is. Bounds are compared with the four
decimals of responses; rounding keeps their order, so it cannot reverse a verdict either.

A verdict on where a rate will settle compares the interval of its forecast instead. Without a
forecast that earlier ones speak for, it compares the bounds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import json
from pydantic import MISSING, ValidationError

from penstock.alerts.model import Alert, Comparison, ConditionKind, Finding, Verdict
from penstock.alerts.schema import ConditionIn
from penstock.base.calendar import Interval, bucket_edges
from penstock.base.clock import iso, parse_time
from penstock.base.errors import Fault, Invalid, Malformed, Unavailable
from penstock.base.ids import WorkspaceId
from penstock.base.rates import round_rate
from penstock.catalogue.service import CatalogueService
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.questions import TREND
from penstock.funnels.shown_forecasts import shown_forecast
from penstock.funnels.trends import TrendBucketRecord, TrendQuery
from penstock.http.schema import faults_of
from penstock.settings import DAY_S
from penstock.warehouse.client import WaitUntilShipped

DAY_MS = DAY_S * 1000
CLOSED_AFTER_MS = 3_600_000
"""A period is judged from an hour after its end, so that events that arrive a little late count."""
_SHORTEST_LOOKBACK_MS, _LONGEST_LOOKBACK_MS = 14 * DAY_MS, 60 * DAY_MS
_BASELINE_WEEKS, _MIN_BASELINE = 8, 4
"""Number of weeks that a rate is compared with, and how many of them need enough units."""

_MIN_HELD = 0.65
"""Use forecasts only if at least this share of earlier ones was inside their interval."""

INTERVALS = (Interval.DAY, Interval.WEEK)
_OWN_PARAMETERS = {"startAt", "endAt", "asOf", "forecast"}
_PAIR = {"fromStep", "toStep"}


class Counts(NamedTuple):
    """The events that a workspace or website has received and rejected so far."""

    received: int
    rejected: int


ReadCounts = Callable[[WorkspaceId, str | None], Counts]
ReadLagS = Callable[[], float | None]
"""Returns the age of the oldest event that waits for the event store; None if none waits."""


class Period(NamedTuple):
    """A judged period."""

    start_ms: int
    end_ms: int
    verdict: Verdict
    figures: Mapping[str, Any]


class Check(NamedTuple):
    """The result of a check. basis: see `Alert`. periods: in the order of time."""

    basis: str | None
    periods: Sequence[Period]


class NotFresh(Unavailable):
    """Accepted events cannot be read yet, so a verdict could be wrong. The check is repeated."""


class Checker:
    """Judges alerts of every kind. Methods block, and raise `PenstockError` if a check is not
    possible.
    """

    def __init__(
        self,
        runner: FunnelQueryRunner,
        catalogue: CatalogueService,
        *,
        read_counts: ReadCounts,
        read_lag_s: ReadLagS,
        wait_until_shipped: WaitUntilShipped,
        fresh_wait_s: float,
    ) -> None:
        self._runner, self._catalogue = runner, catalogue
        self._read_counts, self._read_lag_s = read_counts, read_lag_s
        self._wait_until_shipped, self._fresh_wait_s = wait_until_shipped, fresh_wait_s

    def check(
        self, alert: Alert, last: Finding | None, now_ms: int, *, as_of: bool = False
    ) -> Check:
        """Judge the periods of an alert that can still change.

        last: the finding about the latest period. as_of: whether to judge a rate as it was at
        `now_ms`, a time in the past.
        """
        condition = condition_of(alert)
        match condition.kind:
            case ConditionKind.RATE:
                return self._rate(alert, condition, now_ms, as_of=as_of)
            case ConditionKind.SILENCE:
                return self._silence(alert, condition, last, now_ms)
            case ConditionKind.REJECTIONS:
                return self._rejections(alert, condition, now_ms)
            case ConditionKind.LAG:
                return self._lag(condition, now_ms)

    def validate(self, workspace_id: WorkspaceId, condition: ConditionIn, now_ms: int) -> None:
        """Raise `Invalid` if a condition cannot be checked, with the fields of the condition."""
        match condition.kind:
            case ConditionKind.RATE:
                self._context(workspace_id, condition, now_ms - DAY_MS, now_ms)
            case ConditionKind.SILENCE | ConditionKind.REJECTIONS:
                self._read_counts(workspace_id, condition.website_id)
            case ConditionKind.LAG:
                pass

    def _context(
        self, workspace_id: WorkspaceId, condition: ConditionIn, start_ms: int, end_ms: int
    ) -> tuple[TrendQuery, QueryContext]:
        """Prepare the trend of a period."""
        query = trend_query(condition, start_ms, end_ms)
        try:
            context = self._runner.prepare_saved(workspace_id, condition.funnel_id or "", query)
            query.pair(context.definition)
        except (Malformed, Invalid) as error:
            raise Invalid(_in_parameters(error.faults) or [_fault(error.detail)]) from None
        if context.definition.window_s is None:
            message = (
                "The funnel has no conversion window, so its rate is never final. Give it one, or "
                'send a window such as {"window": "7d"} in parameters.'
            )
            raise Invalid([Fault("condition.funnelId", "no_window", message)])
        return query, context

    def _rate(self, alert: Alert, condition: ConditionIn, now_ms: int, *, as_of: bool) -> Check:
        newest = closed_periods(condition, now_ms - CLOSED_AFTER_MS - 7 * DAY_MS, now_ms)[-1]
        _, context = self._context(alert.workspace_id, condition, *newest)
        if not context.is_fresh:
            raise NotFresh("Accepted events cannot be read yet. The alert is checked again soon.")
        lookback_ms = _lookback_ms((context.definition.window_s or 0) * 1000)
        first_ms = max(alert.checked_from_ms, now_ms - lookback_ms)
        periods = closed_periods(condition, first_ms, now_ms)
        basis = context.rules
        if not periods:
            return Check(basis, [])
        (start_ms, _), (_, end_ms) = periods[0], periods[-1]
        if condition.when is Comparison.UNUSUAL:
            start_ms = _start_of_period(condition, start_ms - _BASELINE_WEEKS * 7 * DAY_MS)
        moved = self._runner.move(context, start_ms, end_ms, now_ms if as_of else None)
        record = TREND.answer(self._runner, moved, trend_query(condition, start_ms, end_ms))
        rates = {parse_time(bucket.from_): _rate_of(bucket) for bucket in record.data}
        shared = {
            "evaluatedAt": record.evaluated_at,
            "unit": "run" if record.repeat else record.counting_unit,
        }
        judged = [_judge(condition, each, rates, shared) for each in periods]
        return Check(basis, judged)

    def _silence(
        self, alert: Alert, condition: ConditionIn, last: Finding | None, now_ms: int
    ) -> Check:
        if not self._wait_until_shipped(self._fresh_wait_s):
            raise NotFresh("Accepted events cannot be read yet. The alert is checked again soon.")
        event = condition.event or ""
        seen_ms = self._catalogue.last_event_ms(alert.workspace_id, event, condition.website_id)
        if seen_ms is None:
            raise Invalid(
                [Fault("condition.event", "no_events", f"No event {event} was received.")]
            )
        end_ms = seen_ms + (condition.minutes or 0) * 60_000
        figures = {"event": event, "lastSeenAt": iso(seen_ms), "evaluatedAt": iso(now_ms)}
        verdict = Verdict.ALARMING if end_ms < now_ms else Verdict.FINE
        period = Period(seen_ms, end_ms, verdict, figures)
        is_late = (
            last is not None
            and last.verdict is Verdict.ALARMING
            and last.start_at_ms < seen_ms <= last.end_at_ms
        )
        if last is not None and is_late:
            was_silent = Period(last.start_at_ms, last.end_at_ms, Verdict.UNDECIDED, figures)
            return Check(None, [was_silent, period])
        return Check(None, [period])

    def _rejections(self, alert: Alert, condition: ConditionIn, now_ms: int) -> Check:
        counts = self._read_counts(alert.workspace_id, condition.website_id)
        basis = json.encode([*counts, now_ms]).decode()
        if alert.basis is None:
            return Check(basis, [])
        received, rejected, since_ms = json.decode(alert.basis)
        received, rejected = counts.received - received, counts.rejected - rejected
        if received < condition.min_units:
            return Check(alert.basis if now_ms - since_ms < DAY_MS else basis, [])
        share, level = round_rate(rejected / received), condition.level or 0
        verdict = Verdict.ALARMING if share > level else Verdict.FINE
        figures = {
            "received": received, "rejected": rejected, "rate": share, "level": level,
            "startAt": iso(since_ms), "endAt": iso(now_ms), "evaluatedAt": iso(now_ms),
        }  # fmt: skip
        return Check(basis, [Period(since_ms, now_ms, verdict, figures)])

    def _lag(self, condition: ConditionIn, now_ms: int) -> Check:
        age_ms = round((self._read_lag_s() or 0) * 1000)
        is_old = age_ms > (condition.minutes or 0) * 60_000
        figures = {"minutes": round(age_ms / 60_000, 1), "evaluatedAt": iso(now_ms)}
        verdict = Verdict.ALARMING if is_old else Verdict.FINE
        return Check(None, [Period(now_ms - age_ms, now_ms, verdict, figures)])


class _Rate(NamedTuple):
    """The rate of a period: its bounds once all windows have closed, and the units behind it.
    forecast: where it will settle, if the condition is about that and earlier ones speak for it.
    """

    lower: float
    upper: float
    units: int
    completed: int
    forecast: ForecastRecord | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Between which rates it will settle."""
        shown = shown_forecast(self.forecast)
        if shown is None:
            return self.lower, self.upper
        return round_rate(shown.low), round_rate(shown.high)


def _rate_of(bucket: TrendBucketRecord) -> _Rate | None:
    """Return the rate of a bucket of a trend; None without units."""
    between = bucket.between
    if between is not None:
        rate, bounds = between.conversion_rate, between.final_rate
        units, completed = between.reached, between.continued
    else:
        rate, bounds = bucket.conversion_rate, bucket.final_rate
        units, completed = bucket.entered - bucket.excluded, bucket.completed
    if bounds is not None:
        return _Rate(
            bounds.lower, bounds.upper, units, completed, _proven_forecast(bucket.forecast)
        )
    return None if rate is None else _Rate(round_rate(rate), round_rate(rate), units, completed)


def _proven_forecast(record: ForecastRecord | MISSING | None) -> ForecastRecord | None:
    shown = shown_forecast(record)
    is_proven = shown is not None and (shown.held_share or 0) >= _MIN_HELD
    return record if is_proven and isinstance(record, ForecastRecord) else None


def _judge(
    condition: ConditionIn,
    period: tuple[int, int],
    rates: Mapping[int, _Rate | None],
    shared: Mapping[str, Any],
) -> Period:
    """Judge a period by the rates of all periods, by their starts. shared: figures of them all."""
    rate = rates.get(period[0])
    figures = {"startAt": iso(period[0]), "endAt": iso(period[1]), **shared}
    if rate is None or rate.units < condition.min_units:
        return Period(*period, Verdict.UNDECIDED, figures)
    figures |= {
        "units": rate.units, "completed": rate.completed,
        "rate": round_rate(rate.completed / rate.units),
        "lowest": rate.lower, "highest": rate.upper,
    }  # fmt: skip
    if rate.forecast is not None:
        figures["forecast"] = rate.forecast.model_dump(mode="json")
    if condition.when is Comparison.UNUSUAL:
        baseline = _baseline(condition, period[0], rates)
        if len(baseline) < _MIN_BASELINE:
            return Period(*period, Verdict.UNDECIDED, figures)
        is_below = rate.upper < min(each.lower for each in baseline)
        is_above = rate.lower > max(each.upper for each in baseline)
        is_inside = rate.lower >= min(each.upper for each in baseline) and rate.upper <= max(
            each.lower for each in baseline
        )
        figures |= {
            "least": min(each.lower for each in baseline),
            "greatest": max(each.upper for each in baseline),
        }
        is_alarming, is_fine = is_below or is_above, is_inside
    else:
        level = condition.level or 0
        figures["level"] = level
        low, high = rate.ends
        is_alarming, is_fine = high < level, low >= level
        if condition.when and condition.when.side == Comparison.ABOVE:
            is_alarming, is_fine = low > level, high <= level
    verdict = Verdict.FINE if is_fine else Verdict.UNDECIDED
    return Period(*period, Verdict.ALARMING if is_alarming else verdict, figures)


def _baseline(
    condition: ConditionIn, start_ms: int, rates: Mapping[int, _Rate | None]
) -> list[_Rate]:
    """Return the rates of the same weekday, or of the weeks, in the eight weeks before."""
    earlier = []
    for week in range(1, _BASELINE_WEEKS + 1):
        # A clock change moves the start by an hour, so look for the period around noon.
        noon_ms = start_ms - week * 7 * DAY_MS + DAY_MS // 2
        rate = rates.get(_start_of_period(condition, noon_ms))
        if rate is not None and rate.units >= condition.min_units:
            earlier.append(rate)
    return earlier


def condition_of(alert: Alert) -> ConditionIn:
    """Return the condition of a stored alert."""
    return ConditionIn.model_validate_json(json.encode(alert.condition))


def closed_periods(condition: ConditionIn, from_ms: int, now_ms: int) -> list[tuple[int, int]]:
    """Return the closed days or weeks in the order of time, beginning with the day or week that
    contains a time."""
    last_ms = now_ms - CLOSED_AFTER_MS
    edges = list(bucket_edges(from_ms, last_ms, _interval(condition), _zone(condition)))[:-1]
    return [(edges[at], edges[at + 1]) for at in range(len(edges) - 1)]


def _start_of_period(condition: ConditionIn, at_ms: int) -> int:
    return next(bucket_edges(at_ms, at_ms, _interval(condition), _zone(condition)))


def trend_query(condition: ConditionIn, start_ms: int, end_ms: int) -> TrendQuery:
    """Return the query for the trend of a condition.

    Raises `Invalid` with the fields of an alert if the parameters are not those of a trend.
    """
    own = sorted(_OWN_PARAMETERS & condition.parameters.keys())
    faults = [Fault(name, "not_for_type", "The alert chooses it. Leave it out.") for name in own]
    is_forecast = condition.when is not None and condition.when.is_forecast
    if is_forecast:
        message = "Forecasts are about the rate of the whole funnel. Leave it out."
        pair = sorted(_PAIR & condition.parameters.keys())
        faults += [Fault(name, "not_for_type", message) for name in pair]
    if condition.parameters.get("interval", Interval.DAY) not in INTERVALS:
        faults.append(Fault("interval", "not_one_of", "Must be day or week."))
    if faults:
        raise Invalid(_in_parameters(faults))
    own_values = {"startAt": start_ms, "endAt": end_ms, "interval": Interval.DAY}
    own_values |= {"forecast": "true"} if is_forecast else {}
    try:
        return TrendQuery.model_validate({**own_values, **condition.parameters})
    except ValidationError as error:
        raise Invalid(faults_of(error, "condition.parameters", TrendQuery)) from None


def _in_parameters(faults: Sequence[Fault]) -> list[Fault]:
    """Return faults of query parameters as faults of an alert."""
    return [Fault(f"condition.parameters.{each.field}", each.code, each.message) for each in faults]


def _fault(message: str) -> Fault:
    return Fault("condition.parameters", "does_not_fit", message)


def _interval(condition: ConditionIn) -> Interval:
    return Interval(condition.parameters.get("interval", Interval.DAY))


def _zone(condition: ConditionIn) -> ZoneInfo:
    return ZoneInfo(condition.parameters.get("timezone", "UTC"))


def _lookback_ms(window_ms: int) -> int:
    """Return how far back periods are judged: until their windows have closed and late events have
    arrived, within bounds.
    """
    return min(max(window_ms + 7 * DAY_MS, _SHORTEST_LOOKBACK_MS), _LONGEST_LOOKBACK_MS)
