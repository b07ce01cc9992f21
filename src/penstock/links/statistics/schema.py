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

    clicks: int = 0
    """Clicks by people, not bots."""
    unique_clicks: int = 0
    """Number of first clicks: the first click by each browser on each day (UTC)."""
    bot_hits: int = 0
    """Visits by bots: previews, crawlers, prefetching."""
    qr_scans: int = 0
    """Clicks that came from the QR code."""
    opens: int = 0
    """`open` events of the app that were matched to the link."""
    installs: int = 0
    """`install` events of the app that were matched to the link."""
    conversion: Rate | None = None
    """installs / clicks, to four decimals; null if there are no clicks."""


class BucketRecord(TotalsRecord):
    """Counts for a time bucket, from `from` (inclusive) to `to` (exclusive)."""

    from_: Annotated[Iso, Field(alias="from")]
    to: Iso
    partial: bool
    """The period covers only part of the bucket."""


class PlatformRecord(TotalsRecord):
    platform: str
    """ios, android, mobile (another phone) or desktop; empty if unknown."""


class CountryRecord(TotalsRecord):
    country: str
    """Two-letter ISO 3166-1 code; empty if unknown."""


class LinkStatisticsRecord(Record):
    """Statistics of a link in a period.

    Without a period, they cover all time, in buckets from the link's creation until now.
    """

    link_id: str
    period: dict[str, str | None]
    interval: Interval
    timezone: str
    totals: TotalsRecord
    opens_by_method: dict[str, int]
    """Opens by the method that matched them. Omits methods without opens."""
    installs_by_method: dict[str, int]
    """Like opensByMethod."""
    data: list[BucketRecord]
    """In chronological order, without gaps."""
    platforms: list[PlatformRecord]
    """Most clicks first."""
    countries: list[CountryRecord]
    """Most clicks first."""
