"""What goes over the wire for the statistics of links."""

from typing import Annotated

from pydantic import Field

from penstock.base.calendar import Interval
from penstock.http.period import InBuckets, InPeriod
from penstock.http.schema import Record


class StatsQuery(InPeriod, InBuckets):
    """The query parameters of a link's statistics."""


class TotalsRecord(Record):
    """What happened to a link."""

    clicks: Annotated[int, Field(description="By people.")] = 0
    unique_clicks: Annotated[int, Field(description="Of these, the first of a browser on a day (UTC).")] = 0
    bot_hits: Annotated[int, Field(description="By programs: previews, crawlers, prefetching.")] = 0
    qr_scans: Annotated[int, Field(description="Clicks on the address in the QR code.")] = 0
    opens: Annotated[int, Field(description="Events `open` of the app that were matched to the link.")] = 0
    installs: Annotated[int, Field(description="Events `install` of the app that were matched to the link.")] = 0
    conversion: Annotated[float | None, Field(description="installs / clicks, to four decimals; null without clicks.")] = None


class BucketRecord(TotalsRecord):
    """From `from` until before `to`."""

    from_: Annotated[str, Field(alias="from")]
    to: str
    partial: Annotated[bool, Field(description="The period covers only a part of it.")]


class PlatformRecord(TotalsRecord):
    platform: Annotated[str, Field(description="ios, android, mobile (another phone) or desktop; empty: unknown.")]


class CountryRecord(TotalsRecord):
    country: Annotated[str, Field(description="ISO 3166-1, two letters; empty: unknown.")]


class LinkStatsRecord(Record):
    """Statistics of a link in a period; without one, of all time, in buckets from the link's creation until now."""

    link_id: str
    period: dict[str, str | None]
    interval: Interval
    timezone: str
    totals: TotalsRecord
    opens_by_method: Annotated[dict[str, int], Field(description="By how they were matched to the link; methods that did occur.")]
    installs_by_method: Annotated[dict[str, int], Field(description="As opensByMethod.")]
    data: Annotated[list[BucketRecord], Field(description="In order of time, without gaps.")]
    platforms: Annotated[list[PlatformRecord], Field(description="Most clicks first.")]
    countries: Annotated[list[CountryRecord], Field(description="Most clicks first.")]
