"""Wire types for shared reports."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from penstock.base.scalar import Scalar
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.periods import ChangeRecord, StepChangeRecord
from penstock.funnels.queries.schema import PeriodRecord
from penstock.funnels.results.schema import AggregateRecord
from penstock.funnels.saved_cohorts.schema import SavedParameters
from penstock.http.period import read_time_ms
from penstock.http.schema import Input, Iso, Name, Omittable, PageQuery, Record
from penstock.shares.model import DEFAULT_DAYS


class NewShare(Input):
    """A report to share."""

    funnel_id: str
    name: Omittable[Name] = None
    """Title of the shared report; default: the name of the funnel."""
    parameters: SavedParameters
    """The query parameters of the report's page, as texts, such as {"period": "30d", "timezone":
    "Europe/Berlin", "breakdown": "plan"}. The period is relative (`7d`, `30d`, `90d`, `settled`,
    `all`) or absolute (`startAt` and `endAt`, or `custom` with `start` and `end`).
    """
    expires_at: Annotated[
        int | None,
        BeforeValidator(read_time_ms),
        WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
        Field(
            description=f"When it stops working; default: after {DEFAULT_DAYS} days. null: never."
        ),
    ] = None


class SharesQuery(PageQuery):
    """Query parameters for the list of shared reports."""

    funnel_id: str | None = None
    """Only reports on this funnel."""


class ShareRecord(Record):
    """A shared report. Its address was shown when it was created."""

    id: str
    name: str
    funnel_id: str
    parameters: dict[str, str]
    created_at: Iso
    created_by: str | None
    """Email address of the member or name of the API key that created it."""
    expires_at: Iso | None
    opens: int
    """Number of times that it was opened, as a page, picture or JSON. It can lag by a minute."""
    last_opened_at: Iso | None


class NewShareRecord(ShareRecord):
    url: Annotated[str, Field(repr=False)]
    """Address of the page, shown only once. With `.svg` or `.json` at its end, it is the address of
    the picture or of the figures.
    """


class SharedCohortRecord(AggregateRecord):
    values: dict[str, Scalar | None]
    """Values by property. `1st value`, `2nd value` and so on stand for values that the workspace
    does not share, by their entries. null if missing.
    """
    change: ChangeRecord | None
    """Change of its rate from the earlier period; null if it did not enter in both."""


class SharedEarlierRecord(Record):
    """The comparison with an earlier period."""

    period: PeriodRecord
    summary: str
    is_so_far: bool
    """Whether the changes are about all units, because too few have settled."""
    rate: ChangeRecord
    steps: list[StepChangeRecord]
    receipt: str | None
    """As in the report, for the earlier period."""


class SharedReportRecord(Record):
    """All that a shared report contains: its page, picture and tables show nothing else."""

    name: str
    unit: str
    """Singular of the counted units: visitor, attempt or run."""
    period: PeriodRecord
    timezone: str
    conditions: list[str]
    """The filters and other choices of the report, in words."""
    evaluated_at: Iso
    has_window: bool
    """Whether units have a conversion window, after which they settle."""
    is_complete: bool
    """Whether all events of the period are retained and counted."""
    final_at: Iso | None
    """When a rate so far is final; null if it is final."""
    sentences: list[str]
    steps: list[str]
    """The names of the steps."""
    aggregate: AggregateRecord
    breakdown: list[str]
    """The breakdown properties."""
    cohorts: list[SharedCohortRecord]
    """The cohorts with the most entries, at most a hundred; empty without a breakdown."""
    cohorts_total: int
    earlier: SharedEarlierRecord | None
    forecast: ForecastRecord | None
    """Where the rate of all units settles; null if no unit is open, or if none was made within a
    day.
    """
    receipt: str | None
    """Address of the newest receipt of this number, for people with an account; null without
    one.
    """
