"""Plain types for digests. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from penstock.base.calendar import instant_ms, local_time
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
    today = local_time(after_ms, zone).date()
    day = today + timedelta(days=(weekday - today.isoweekday()) % 7)
    slot = datetime.combine(day, time(hour))
    slot_ms = instant_ms(slot, zone)
    return slot_ms if slot_ms > after_ms else instant_ms(slot + _WEEK, zone)
