"""Link statistics, counted in the warehouse."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.base.clock import LATEST_MS, iso_or_none
from penstock.base.errors import Unavailable
from penstock.base.ids import LinkId, WorkspaceId
from penstock.base.rates import rate
from penstock.core import Core
from penstock.links.model import Link
from penstock.links.statistics.schema import (
    BucketRecord,
    CountryRecord,
    LinkStatisticsRecord,
    PlatformRecord,
    StatisticsQuery,
    TotalsRecord,
)
from penstock.warehouse.client import WaitUntilShipped
from penstock.warehouse.queries import load


class Counts(NamedTuple):
    """Counts for a link. Clicks and scans exclude robots.

    unique_clicks: clicks that are a browser's first click on the link that day.
    """

    clicks: int = 0
    unique_clicks: int = 0
    bot_hits: int = 0
    qr_scans: int = 0
    opens: int = 0
    installs: int = 0

    @property
    def conversion(self) -> float | None:
        return rate(self.installs, self.clicks)


class StatisticsService:
    """Counts clicks, opens and installs of links. Methods block; call them from a worker thread."""

    def __init__(
        self,
        core: Core,
        *,
        find_link: Callable[[WorkspaceId, str], Link],
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        """find_link: finds a link, or raises `NotFound` if it belongs to another workspace.

        wait_until_shipped: waits until clicks and events acknowledged before the call can be
        queried, and returns False on timeout.
        """
        self._warehouse, self._settings, self._clock = core.warehouse, core.settings, core.clock
        self._find_link, self.wait_until_shipped = find_link, wait_until_shipped

    def read(
        self, workspace_id: WorkspaceId, link_id: str, query: StatisticsQuery
    ) -> LinkStatisticsRecord:
        """Return the statistics of a link.

        Raises `NotFound` if the link belongs to another workspace, `Malformed` if there are too
        many buckets, and `Unavailable` if the warehouse does not respond.
        """
        link = self._find_link(workspace_id, link_id)
        start_ms, end_ms = query.start_at, query.end_at
        # Return statistics for all time, in buckets since the link's creation.
        if start_ms is None or end_ms is None:
            span = link.created_at_ms, max(self._clock(), link.created_at_ms)
            name = "The lifetime of the link"
        else:
            span, name = (start_ms, end_ms - 1), "The period"
        query = query.fitting(*span)
        edges = query.edges(*span, name)
        parts = self._counts(link, edges, start_ms or 0, LATEST_MS if end_ms is None else end_ms)
        buckets, methods = parts["bucket"], parts["method"]
        return LinkStatisticsRecord(
            link_id=link.id,
            period={"startAt": iso_or_none(start_ms), "endAt": iso_or_none(end_ms)},
            interval=query.interval,
            timezone=query.timezone,
            totals=_sum(buckets.values()),
            opens_by_method={
                method: counts.opens for method, counts in methods.items() if counts.opens
            },
            installs_by_method={
                method: counts.installs for method, counts in methods.items() if counts.installs
            },
            data=[
                BucketRecord.from_object(
                    buckets.get(str(from_ms), Counts()),
                    from_=from_ms,
                    to=to_ms,
                    partial=start_ms is not None
                    and end_ms is not None
                    and (from_ms < start_ms or to_ms > end_ms),
                )
                for from_ms, to_ms in pairwise(edges)
            ],
            platforms=[
                PlatformRecord.from_object(counts, platform=platform)
                for platform, counts in parts["platform"].items()
            ],
            countries=[
                CountryRecord.from_object(counts, country=country)
                for country, counts in parts["country"].items()
            ],
        )

    def _counts(
        self, link: Link, edges: Sequence[int], start_ms: int, end_ms: int
    ) -> Mapping[str, dict[str, Counts]]:
        """Return counts by bucket (keyed by its start in ms), by platform, by country and by
        method.

        Each group is sorted by clicks, largest first.
        """
        parameters = {
            "website": link.website_id,
            "link": link.id,
            "slug": link.slug,
            "start": start_ms,
            "end": end_ms,
            "edges": edges[:-1],
        }
        names = ("bucket", "platform", "country", "method")
        parts: dict[str, dict[str, Counts]] = {name: {} for name in names}
        for part, value, *counts in self._query("link_statistics", parameters):
            parts[part][value] = Counts(*counts)
        return parts

    def totals(
        self, links: Sequence[Link], since_ms: int = 0
    ) -> Mapping[LinkId, TotalsRecord | None]:
        """Return counts of each link, from one query. None if the warehouse is unavailable.

        since_ms: the start of the time that is counted; 0 for all time.
        """
        if not links:
            return {}
        parameters = {
            "websites": list({link.website_id for link in links}),
            "links": [link.id for link in links],
            "slugs": [link.slug for link in links],
            "since": since_ms,
        }
        try:
            rows = self._query("link_totals", parameters)
        except Unavailable:
            return dict.fromkeys((link.id for link in links), None)
        counts = {link_id: Counts(*values) for link_id, *values in rows}
        return {link.id: TotalsRecord.from_object(counts.get(link.id, Counts())) for link in links}

    def _query(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self.wait_until_shipped(self._settings.limits.fresh_wait_s)
        return self._warehouse.fetch_rows(load("penstock.links.statistics", statement), parameters)


def _sum(addends: Iterable[Counts]) -> Counts:
    return Counts(*map(sum, zip(Counts(), *addends, strict=True)))
