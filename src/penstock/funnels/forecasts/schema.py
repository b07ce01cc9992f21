"""Wire types of forecasts."""

from enum import StrEnum
from typing import Annotated

from pydantic import MISSING, Field

from penstock.funnels.queries.schema import CohortQuery, HeadRecord
from penstock.http.schema import Iso, Rate, Record


class NoForecast(StrEnum):
    """Why there is no forecast.

    TOO_LITTLE_HISTORY: fewer than 50 settled units, or fewer than 10 earlier forecasts to learn
    from; or all units are expected to be excluded, so that there is no rate. NO_WINDOW: units never
    settle. NOT_READY: it would have to be made first. LEFT_OUT: others of the answer have one, but
    the cohort was not among the 20 with most units or the bucket not among the last 40 that are
    open.
    """

    TOO_LITTLE_HISTORY = "too_little_history"
    NO_WINDOW = "no_window"
    NOT_READY = "not_ready"
    LEFT_OUT = "left_out"


class HistoryRecord(Record):
    """The settled units that a forecast is made from."""

    units: int
    from_: Annotated[Iso, Field(alias="from")]
    """They entered at this time or later."""
    until: Iso
    """They entered before this time: up to a window and a day before evaluatedAt."""
    of_cohort: bool
    """Whether they are those of the cohort itself, which needs 200."""
    share: float | MISSING = MISSING
    """Present if there are over 200,000 units: the share of them, chosen at random, that was read.
    """


class ForecastRecord(Record):
    """Where a rate will settle. There is either a `rate` with all that belongs to it, or a
    `reason`.
    """

    rate: Rate | MISSING = MISSING
    low: Rate | MISSING = MISSING
    """The settled rate is expected between `low` and `high` in 8 of 10 cases, if units behave as in
    the history.
    """
    high: Rate | MISSING = MISSING
    completed: float | MISSING = MISSING
    """Expected number of units that count as completed in `rate`."""
    history: HistoryRecord | MISSING = MISSING
    replays: int | MISSING = MISSING
    """Number of earlier forecasts, made in the same way, whose truth is known."""
    mean_error: float | MISSING = MISSING
    """How far off these were on average, in percentage points."""
    held_share: Rate | MISSING | None = MISSING
    """inside / intervals; null if none had an interval."""
    intervals: int | MISSING = MISSING
    """Number of them that had an interval, from at least 10 forecasts before them."""
    inside: int | MISSING = MISSING
    """Number of these whose truth was inside their interval."""
    late_share: Rate | MISSING = MISSING
    """Present if over a tenth of the events of the history arrived more than an hour late: the
    earlier forecasts know these events too soon, so they look better than they were.
    """
    reason: NoForecast | MISSING = MISSING


class PastForecastsQuery(CohortQuery):
    """The query parameters for earlier forecasts."""


class PastForecastRecord(Record):
    """An earlier forecast, and what came of it."""

    days: int
    """Number of days before evaluatedAt."""
    at: Iso
    rate: Rate
    """The forecast."""
    low: Rate | None
    """null if there was too little history for an interval then, as for `high`."""
    high: Rate | None
    truth: Rate
    """The rate at which the units settled that had entered then."""
    held: bool | None
    """Whether the truth is inside the interval; null without one."""


class PastForecastsRecord(HeadRecord):
    """How earlier forecasts of such a period did. The period was moved back by whole days, as far
    as 60 days, to where the truth is settled now.
    """

    reason: NoForecast | MISSING = MISSING
    """Present if there is no forecast; then there are no earlier ones either."""
    mean_error: float | None
    """How far off they were on average, in percentage points."""
    held_share: Rate | None
    """Share of those with an interval whose truth was inside."""
    data: list[PastForecastRecord]
    """The latest first."""
