"""Limits how many clicks are stored per minute for each link and each app."""

from collections import Counter
from threading import Lock

from penstock.base.clock import Clock
from penstock.base.errors import RateLimited, RatePolicy
from penstock.base.ids import LinkId
from penstock.base.worker import Worker
from penstock.http.rate_limiter import RateLimiter
from penstock.links.clicks import store
from penstock.links.model import Link
from penstock.metadb.database import Database

_LINKS_WORTH = 5
_PERIOD_S = 5.0


class ClickQuota:
    """Decides whether to store a click, and counts clicks that are not stored.

    The edge limits requests per network address. This quota limits the clicks that many addresses
    can store together. Each node has a separate quota.
    """

    def __init__(self, database: Database, per_minute: int, clock: Clock) -> None:
        """per_minute: maximum number of clicks stored per link. All links of an app together may
        store five times as many.
        """
        self._database = database
        self._link_limiter = RateLimiter(RatePolicy("link_clicks", per_minute, 60), clock)
        self._website_limiter = RateLimiter(
            RatePolicy("app_clicks", per_minute * _LINKS_WORTH, 60), clock
        )
        self._excess: Counter[LinkId] = Counter()
        self._lock = Lock()
        self.worker = Worker(
            "click_quota",
            self._store_excess,
            clock,
            period_s=_PERIOD_S,
            last_step=self._store_excess,
        )

    def admits(self, link: Link) -> bool:
        """Whether to store a click on the link now. If not, the click is counted as not stored."""
        try:
            self._link_limiter.count(link.id)
            self._website_limiter.count(link.website_id)
        except RateLimited:
            with self._lock:
                self._excess[link.id] += 1
            return False
        return True

    def _store_excess(self) -> None:
        with self._lock:
            excess, self._excess = self._excess, Counter()
        if not excess:
            return
        try:
            with self._database.write() as db:
                store.add_unstored_clicks(db, excess)
        except Exception:
            with self._lock:
                self._excess += excess
            raise
