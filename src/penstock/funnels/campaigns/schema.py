"""Wire types for the attribution report."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from penstock.base.calendar import Interval
from penstock.base.table_files import TableFormat
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.queries.schema import CoverageRecord, PeriodRecord
from penstock.funnels.results.schema import ConversionRate
from penstock.funnels.statements.campaigns import CampaignSort
from penstock.http.period import AS_TIME, TIME, InBuckets, InPeriod
from penstock.http.schema import Iso, PageQuery, Rate, Record, RuleBroken, without_nul


class GroupBy(StrEnum):
    SOURCE = "source"
    MEDIUM = "medium"
    CAMPAIGN = "campaign"
    LINK = "link"

    @property
    def column(self) -> str:
        """The column of clicks and events. A touch field has the same name after its prefix."""
        return self.value if self is GroupBy.LINK else f"utm_{self.value}"


class TrafficSelection(InPeriod):
    """The query parameters that select and group clicks, installs and opens."""

    website_id: str | None = None
    """Only this website or app."""
    group_by: GroupBy = GroupBy.SOURCE
    """Field by which rows are grouped."""


class AttributionSelection(TrafficSelection):
    """The query parameters that select and group the report's figures."""

    funnel_id: Annotated[str, AfterValidator(without_nul)] | None = None
    """Funnel whose entries and completions are counted."""
    touch: Literal["first", "last"] = "last"
    """The touch at entry by which a unit of the funnel counts."""
    internal: bool = False
    """true: the funnel's figures also count internal traffic, which they leave out by default."""
    sort: CampaignSort = CampaignSort.CLICKS
    """Figure that rows are sorted by, highest first."""


class AttributionQuery(AttributionSelection, PageQuery):
    """Query parameters for the attribution report."""


_Ignored = Annotated[str | None, Field(description="Ignored: an export has all rows.")]


class AttributionExportQuery(AttributionSelection):
    """Query parameters for the export. The parameters of the report are accepted and ignored."""

    format: TableFormat = "csv"
    """File format."""
    page: _Ignored = None
    page_size: _Ignored = None


class AttributionTrendQuery(TrafficSelection, InBuckets):
    """Query parameters for traffic over time."""

    start_at: Annotated[int, AS_TIME, Field(description=f"Start of the period: {TIME}.")]
    end_at: Annotated[int, AS_TIME]
    """End of the period."""

    @field_validator("start_at", "end_at", mode="before")
    @classmethod
    def _is_sent(cls, sent: Any) -> Any:
        if sent is None:
            raise RuleBroken("required", "Send startAt and endAt, the period of the trend.")
        return sent


class TrafficRecord(Record):
    """Clicks on managed links, and the installs and opens that they led to."""

    clicks: int
    """Clicks by people on managed links."""
    installs: int
    """`install` events of apps that were matched to a link."""
    opens: int
    """`open` events of apps that were matched to a link."""


class CampaignFiguresRecord(TrafficRecord):
    """The figures for one value or for all values. Funnel figures are null without a funnel."""

    entered: int | None
    """Units that entered the funnel."""
    completed: int | None
    pending: int | None
    dropped_off: int | None
    excluded: int | None
    """Units that the funnel excludes. They do not count in any rate."""
    conversion_rate: ConversionRate
    settled: int | None
    """Eligible units whose window has ended and that are not open."""
    settled_rate: Rate | None
    """Settled units that completed / settled, to four decimals."""
    early_completions: int | None
    """Units that completed while their window is still open."""


class CampaignValueRecord(Record):
    value: str | None
    """A source, medium or campaign, or the slug of a link; null if it is missing."""
    label: str
    """The value for people; Unknown if it is missing."""


class CampaignRecord(CampaignFiguresRecord, CampaignValueRecord):
    """The figures for one value."""


class TrafficBucketRecord(TrafficRecord):
    """Traffic from `from` (inclusive) to `to` (exclusive)."""

    from_: Annotated[str, Field(alias="from")]
    to: str


class CampaignClicksRecord(CampaignValueRecord):
    clicks: list[int]
    """Clicks in each bucket of `data`."""


class AttributionTrendRecord(Record):
    """Traffic over time. It may be cut at both ends of the period."""

    group_by: GroupBy
    website_id: str | None
    period: PeriodRecord
    interval: Interval
    timezone: str
    computed_at: Iso
    data: list[TrafficBucketRecord]
    values: list[CampaignClicksRecord]
    """The five values with the most clicks in the period."""


class AttributionRecord(Record):
    """A page of the attribution report. totals: the figures of all pages."""

    group_by: GroupBy
    touch: Literal["first", "last"]
    funnel_id: str | None
    definition_revision: int | None
    """null without a funnel."""
    website_id: str | None
    period: PeriodRecord
    evaluated_at: Iso | None
    """The time that the funnel's figures describe; null without a funnel."""
    computed_at: Iso
    internal_traffic: InternalTraffic | None
    """Whether the funnel's figures leave out internal traffic; null without a funnel, or if the
    workspace has no filters for internal traffic. Clicks, installs and opens always include it.
    """
    totals: CampaignFiguresRecord
    data: list[CampaignRecord]
    page: int
    page_size: int
    total: int
    """Number of values on all pages."""
    coverage: CoverageRecord | None
    """Coverage of the funnel's figures; null without a funnel."""
