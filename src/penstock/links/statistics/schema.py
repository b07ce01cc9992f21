"""Wire types for link statistics."""

from typing import Annotated

from pydantic import Field

from penstock.base.calendar import Interval
from penstock.http.period import InBuckets, InPeriod
from penstock.http.schema import Iso, Rate, Record


class StatisticsQuery(InPeriod, InBuckets):
    """Query parameters for a link's statistics."""


class TotalsRecord(Record):
    """Counts for a link."""

    clicks: Annotated[int, Field(description="Clicks by people, not bots.")] = 0
    unique_clicks: Annotated[
        int,
        Field(
            description="Number of first clicks: the first click by each browser on each day (UTC)."
        ),
    ] = 0
    bot_hits: Annotated[
        int, Field(description="Visits by bots: previews, crawlers, prefetching.")
    ] = 0
    qr_scans: Annotated[int, Field(description="Clicks that came from the QR code.")] = 0
    opens: Annotated[
        int, Field(description="`open` events of the app that were matched to the link.")
    ] = 0
    installs: Annotated[
        int, Field(description="`install` events of the app that were matched to the link.")
    ] = 0
    conversion: Annotated[
        Rate | None,
        Field(description="installs / clicks, to four decimals; null if there are no clicks."),
    ] = None


class BucketRecord(TotalsRecord):
    """Counts for a time bucket, from `from` (inclusive) to `to` (exclusive)."""

    from_: Annotated[Iso, Field(alias="from")]
    to: Iso
    partial: Annotated[bool, Field(description="The period covers only part of the bucket.")]


class PlatformRecord(TotalsRecord):
    platform: Annotated[
        str, Field(description="ios, android, mobile (another phone) or desktop; empty if unknown.")
    ]


class CountryRecord(TotalsRecord):
    country: Annotated[str, Field(description="Two-letter ISO 3166-1 code; empty if unknown.")]


class LinkStatisticsRecord(Record):
    """Statistics of a link in a period.

    Without a period, they cover all time, in buckets from the link's creation until now.
    """

    link_id: str
    period: dict[str, str | None]
    interval: Interval
    timezone: str
    totals: TotalsRecord
    opens_by_method: Annotated[
        dict[str, int],
        Field(description="Opens by the method that matched them. Omits methods without opens."),
    ]
    installs_by_method: Annotated[dict[str, int], Field(description="Like opensByMethod.")]
    data: Annotated[list[BucketRecord], Field(description="In chronological order, without gaps.")]
    platforms: Annotated[list[PlatformRecord], Field(description="Most clicks first.")]
    countries: Annotated[list[CountryRecord], Field(description="Most clicks first.")]
