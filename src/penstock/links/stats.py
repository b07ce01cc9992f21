"""Use cases of the statistics of links, which are counted in the warehouse."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from penstock.base.clock import LATEST_MS, Clock, iso, iso_or_none
from penstock.base.errors import Unavailable
from penstock.base.ids import LinkId, WorkspaceId
from penstock.base.rates import rate
from penstock.links.model import Link
from penstock.links.service import LinkService
from penstock.links.stats_schema import (
    BucketRecord,
    CountryRecord,
    LinkStatsRecord,
    PlatformRecord,
    StatsQuery,
    TotalsRecord,
)
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.queries import load


@dataclass(slots=True)
class Counts:
    """clicks, qr_scans: of people. unique_clicks: the first of a browser on a day. bot_hits: of programs."""

    clicks: int = 0
    unique_clicks: int = 0
    bot_hits: int = 0
    qr_scans: int = 0
    opens: int = 0
    installs: int = 0

    def record(self) -> dict[str, Any]:
        """With the share of clicks that became an installation."""
        return {**{name: getattr(self, name) for name in _COUNTED}, "conversion": rate(self.installs, self.clicks)}


_COUNTED = tuple(field.name for field in fields(Counts))


class StatsService:
    """Its methods block; call them from a worker thread."""

    def __init__(
        self, warehouse: Warehouse, links: LinkService, settings: Settings, clock: Clock, *, wait_until_shipped: WaitUntilShipped
    ) -> None:
        """wait_until_shipped: waits for clicks and events acknowledged before the call, False when that took too long."""
        self._warehouse, self._links, self._settings, self._clock = warehouse, links, settings, clock
        self._wait_until_shipped = wait_until_shipped

    def of_link(self, workspace_id: WorkspaceId, link_id: str, query: StatsQuery) -> LinkStatsRecord:
        """NotFound for a link of another workspace, Malformed for too many buckets, Unavailable when the warehouse does not answer."""
        link = self._links.find(workspace_id, link_id)
        start_ms, end_ms = query.start_at, query.end_at
        if start_ms is None or end_ms is None:  # all that is known, in buckets from the link's beginning until now
            edges = query.edges(link.created_at_ms, max(self._clock(), link.created_at_ms), "The life of the link")
        else:
            edges = query.edges(start_ms, end_ms - 1, "The period")
        parts = self._counted(link, edges, start_ms or 0, LATEST_MS if end_ms is None else end_ms)
        buckets, methods = parts["bucket"], parts["method"]
        return LinkStatsRecord(
            link_id=link.id,
            period={"startAt": iso_or_none(start_ms), "endAt": iso_or_none(end_ms)},
            interval=query.interval,
            timezone=query.timezone,
            totals=TotalsRecord(**_summed(buckets.values()).record()),
            opens_by_method={method: counts.opens for method, counts in methods.items() if counts.opens},
            installs_by_method={method: counts.installs for method, counts in methods.items() if counts.installs},
            data=[
                BucketRecord(
                    **buckets.get(str(from_ms), Counts()).record(),
                    from_=iso(from_ms),
                    to=iso(to_ms),
                    partial=start_ms is not None and end_ms is not None and (from_ms < start_ms or to_ms > end_ms),
                )
                for from_ms, to_ms in pairwise(edges)
            ],
            platforms=[PlatformRecord(**counts.record(), platform=platform) for platform, counts in parts["platform"].items()],
            countries=[CountryRecord(**counts.record(), country=country) for country, counts in parts["country"].items()],
        )

    def _counted(self, link: Link, edges: Sequence[int], start_ms: int, end_ms: int) -> Mapping[str, dict[str, Counts]]:
        """What happened by each value of bucket (its beginning), platform, country and method, most clicks first."""
        parameters = {
            "website": link.website_id, "link": link.id, "slug": link.slug, "start": start_ms, "end": end_ms, "edges": edges[:-1]
        }  # fmt: skip
        parts: dict[str, dict[str, Counts]] = {"bucket": {}, "platform": {}, "country": {}, "method": {}}
        for part, value, *counts in self._ask("link_stats", parameters):
            parts[part][value] = Counts(*counts)
        return parts

    def totals(self, links: Sequence[Link]) -> Mapping[LinkId, TotalsRecord | None]:
        """All that happened to each of some links, by one query. None for all when the warehouse does not answer."""
        if not links:
            return {}
        parameters = {
            "websites": list({link.website_id for link in links}),
            "links": [link.id for link in links],
            "slugs": [link.slug for link in links],
        }
        try:
            found = {row[0]: Counts(*row[1:]) for row in self._ask("link_totals", parameters)}
        except Unavailable:
            return dict.fromkeys((link.id for link in links), None)
        return {link.id: TotalsRecord(**found.get(link.id, Counts()).record()) for link in links}

    def _ask(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self._wait_until_shipped(self._settings.fresh_wait_s)
        return self._warehouse.ask(load(statement, "penstock.links"), parameters)


def _summed(some: Iterable[Counts]) -> Counts:
    total = Counts()
    for counts in some:
        for name in _COUNTED:
            setattr(total, name, getattr(total, name) + getattr(counts, name))
    return total
