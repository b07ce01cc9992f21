"""Quiet hours, during which messages wait."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from penstock.base.calendar import instant_ms, local_time


def quiet_until_ms(quiet_hours: Mapping[str, str] | None, now_ms: int) -> int:
    """Return when a message may be sent: now, or when the quiet hours end.

    quiet_hours: as in the API. They may span midnight, and follow the clock of their time zone.
    """
    if quiet_hours is None:
        return now_ms
    zone = ZoneInfo(quiet_hours["timezone"])
    now = local_time(now_ms, zone)
    start, end = (time.fromisoformat(quiet_hours[name]) for name in ("from", "to"))
    at = now.time()
    is_quiet = start <= at < end if start < end else at >= start or at < end
    if not is_quiet:
        return now_ms
    day = now.date() + timedelta(days=int(at >= end))
    return max(now_ms, instant_ms(datetime.combine(day, end), zone))
