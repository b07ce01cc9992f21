"""When a message may be sent: quiet hours span midnight, and follow the clock of their zone."""

import pytest

from penstock.alerts.quiet_hours import quiet_until_ms
from penstock.base.clock import iso, parse_time

NIGHT = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}
NOON = {"from": "12:00", "to": "13:30", "timezone": "UTC"}


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        (None, "2026-06-01T23:00", "2026-06-01T23:00"),
        (NIGHT, "2026-06-01T19:59", "2026-06-01T19:59"),
        (NIGHT, "2026-06-01T20:00", "2026-06-02T05:00"),
        (NIGHT, "2026-06-02T04:59", "2026-06-02T05:00"),
        (NIGHT, "2026-06-02T05:00", "2026-06-02T05:00"),
        (NIGHT, "2026-10-24T22:00", "2026-10-25T06:00"),  # the clocks go back in this night
        (NOON, "2026-06-01T13:29", "2026-06-01T13:30"),
        (NOON, "2026-06-01T11:59", "2026-06-01T11:59"),
    ],
)
def test_a_message_waits_until_the_quiet_hours_end(
    hours: dict[str, str] | None, now: str, until: str
) -> None:
    assert iso(quiet_until_ms(hours, parse_time(now + "Z")))[:16] == until
