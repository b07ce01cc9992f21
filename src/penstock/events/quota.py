"""The daily event quota of each website."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.base.calendar import utc_day
from penstock.base.clock import Clock
from penstock.base.errors import RateLimited, RatePolicy
from penstock.base.ids import WebsiteId
from penstock.events import store
from penstock.events.model import NewEvent, Receipt, Status
from penstock.events.transaction import Item, Outcome
from penstock.identity.model import Claim, Resolution, Trust
from penstock.metadb.database import Database
from penstock.settings import DAY_S


class DayCount(NamedTuple):
    """Number of a website's counted events on one UTC day, and its quota."""

    events: int
    quota: int


class DailyQuota:
    """Counts each website's public events per UTC day, and rejects events over the quota.

    Public events are new events and identify calls that came without a key. Events with a key are
    neither counted nor rejected, so that strangers who send events to a website cannot block its
    backends.

    The intake's transactions increase the stored counts. A check does not read them. It uses the
    counts that this node's last commits returned, which cover all nodes. Events that passed the
    check before such a commit are still stored. On each node, their number is limited by the number
    of public events that may wait.
    """

    def __init__(self, database: Database, quota: int, clock: Clock) -> None:
        self._database, self._clock, self._quota = database, clock, quota
        self._policy = RatePolicy("daily-events", quota=quota, window_s=DAY_S)
        self._day, self._exhausted = 0, frozenset[WebsiteId]()

    def require(self, items: Sequence[Item]) -> None:
        """Raise `RateLimited` if the website of any item has used its quota."""
        if not self._exhausted:
            return
        now_ms = self._clock()
        if self._day == utc_day(now_ms) and not self._exhausted.isdisjoint(map(_counted, items)):
            raise self._used_up(now_ms)

    def _used_up(self, now_ms: int) -> RateLimited:
        return RateLimited(
            f"The website has stored {self._quota:,} events without a key today (UTC), which is "
            "its quota. Send again tomorrow; the operator can raise the quota with "
            "PENSTOCK_DAILY_EVENTS.",
            code="daily_quota_used",
            retry_after_s=DAY_S - now_ms // 1000 % DAY_S,
            policy=self._policy,
        )

    def add(
        self,
        connection: Connection,
        items: Sequence[Item],
        outcomes: Sequence[Outcome],
        now_ms: int,
    ) -> Mapping[WebsiteId, int]:
        """Count the events that a transaction stores. Returns the new counts, for `note`."""
        stored = Counter(
            website_id
            for item, outcome in zip(items, outcomes, strict=True)
            if type(outcome) is Resolution
            or (type(outcome) is Receipt and outcome.status is Status.ACCEPTED)
            if (website_id := _counted(item))
        )
        return store.count_events(connection, utc_day(now_ms), stored)

    def note(self, counts: Mapping[WebsiteId, int], now_ms: int) -> None:
        """Remember counts after their commit. counts: the result of `add`."""
        if self._day != utc_day(now_ms):
            self._day, self._exhausted = utc_day(now_ms), frozenset()
        used_up = {website_id for website_id, count in counts.items() if count >= self._quota}
        if not self._exhausted.issuperset(used_up):
            self._exhausted |= used_up

    def today(self, website_id: WebsiteId) -> DayCount:
        """Return today's stored count, which covers all nodes. Blocks."""
        with self._database.read() as db:
            events = store.events_of_day(db, website_id, utc_day(self._clock()))
        return DayCount(events, self._quota)


def _counted(item: Item) -> WebsiteId | None:
    """Return the website whose quota an item uses; None for an item without a quota."""
    if type(item) is NewEvent:
        return item.website_id if item.is_public else None
    if isinstance(item, Claim) and item.trust < Trust.BACKEND:
        return item.website_id
    return None
