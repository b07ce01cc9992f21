"""Wire types for trends, times between steps and next events."""

from typing import Annotated, Literal

from pydantic import Field

from penstock.base.calendar import Interval
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.results.schema import FiguresRecord, SettledRecord
from penstock.http.period import InBuckets
from penstock.http.schema import Record


class TrendQuery(CohortQuery, InBuckets):
    """The query parameters for a trend."""


class _SpanRecord(Record):
    from_: Annotated[str, Field(alias="from")]
    to: str


class TrendBucketRecord(FiguresRecord, _SpanRecord, SettledRecord):
    """Units that entered at `from` or later, but before `to`."""

    maturing: Annotated[
        bool,
        Field(description="Numbers may still change, because some windows are still open."),
    ]
    partial: Annotated[bool, Field(description="The period covers only part of the bucket.")]


class TrendRecord(HeadRecord):
    """A funnel by time of entry. Each bucket reports on its time span and may be empty.

    Without a period, the trend covers the time from the first entry until now.
    """

    interval: Interval
    timezone: str
    note: Annotated[
        str | None,
        Field(description="Why buckets do not add up to the total of visitors; null for attempts."),
    ]
    data: list[TrendBucketRecord]


class TimingQuery(CohortQuery):
    """The query parameters for times between steps."""

    from_: Annotated[
        int | None,
        Field(
            alias="from",
            ge=1,
            le=20,
            description="First step of an additional pair of steps. Requires `to`.",
        ),
    ] = None
    to: Annotated[int | None, Field(ge=1, le=20, description="A later step. Requires `from`.")] = (
        None
    )


class BinRecord(Record):
    from_minutes: float
    to_minutes: Annotated[
        float | None, Field(description="End of the bin, exclusive; null if there is no end.")
    ]
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


class NextQuery(CohortQuery):
    """The query parameters for next events."""

    step: Annotated[int, Field(ge=1, le=19, description="Furthest step of the units.")]
    outcome: Annotated[
        Literal["pending", "droppedOff", "excluded"] | None,
        Field(description="Outcome of the units. Default: pending and droppedOff."),
    ] = None
    of: EventsOf = "unit"
    page_size: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_PAGE_SIZE,
            description="Number of different events, most frequent first; 1 to 100.",
        ),
    ] = 20


class NextEventRecord(Record):
    type: str
    name: str
    units: Annotated[int, Field(description="Units with this event.")]
    events: int
    first: Annotated[int, Field(description="Units for which this was the very next event.")]
    share: Annotated[float | None, Field(description="units / stopped, to four decimals.")]


class NextRecord(HeadRecord):
    """Events of units after the step at which they stopped, up to the end of their windows."""

    step: int
    stopped: Annotated[
        int, Field(description="Units of this outcome that got no further than this step.")
    ]
    silent: Annotated[
        int, Field(description="Stopped units without another event in their window.")
    ]
    data: list[NextEventRecord]
