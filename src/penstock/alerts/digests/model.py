"""Plain types for digests. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from penstock.base.ids import UserAccountId, WorkspaceId

_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Digest:
    """A subscription of a person in a workspace.

    weekday: 1 for Monday to 7 for Sunday. hour: 0 to 23, in the time zone. slot_at_ms: time of the
    next email. due_at_ms: when a node works on it: later than its slot while a node tries, and
    after failures. funnel_ids: None for all funnels. sent_at_ms: None before the first email.
    """

    workspace_id: WorkspaceId
    user_id: UserAccountId
    weekday: int
    hour: int
    timezone: str
    slot_at_ms: int
    due_at_ms: int
    funnel_ids: tuple[str, ...] | None = None
    sent_at_ms: int | None = None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def next_slot_ms(weekday: int, hour: int, zone: ZoneInfo, after_ms: int) -> int:
    """Return the next time after `after_ms` at which the week has this day and hour.

    An hour that the change to summer time skips is the one after it.
    """
    now = datetime.fromtimestamp(after_ms / 1000, zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0, tzinfo=None)
    slot = midnight + timedelta(days=(weekday - now.isoweekday()) % 7, hours=hour)
    slot_ms = _ms(slot, zone)
    return slot_ms if slot_ms > after_ms else _ms(slot + _WEEK, zone)


def _ms(local: datetime, zone: ZoneInfo) -> int:
    return round(local.replace(tzinfo=zone).timestamp() * 1000)
