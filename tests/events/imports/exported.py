"""Small exports in the documented shapes of other products. Each tells the same story.

Five people visit `/pricing` on 1 May 2024, in UTC:

- Ann views the page at 10:00, logs in, starts a checkout at 10:05, and pays at 10:10. The payment
  comes from her backend, which knows only her user ID.
- Ben views the page and starts a checkout, and never pays.
- Cem only views the page.
- Dia views the page on her phone at 11:00, logs in there and on her laptop, starts a checkout on
  the laptop at 11:10, and pays at 11:20.
- Eve logs in on Ann's device at 12:00 and views the page. The device is Ann's already, so this is a
  conflict, and nothing is merged.
"""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

STARTED, PAID = "checkout_started", "order_paid"
Line = dict[str, Any]


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2024-05-01T{clock}:00").replace(tzinfo=UTC)


def lines(objects: Iterable[Line]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


class Mixpanel:
    """A raw event export of a project with the simplified ID merge.

    Events of the web client have `$device_id`, and `$user_id` after the log-in; `distinct_id` is
    the user ID or `$device:` and the device ID. Backends send `distinct_id` alone. Sources:
    https://docs.mixpanel.com/reference/raw-event-export and
    https://docs.mixpanel.com/docs/tracking-methods/id-management/identifying-users-simplified
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(self, name: str, clock: str, **properties: Any) -> None:
        self.lines.append(
            {
                "event": name,
                "properties": {
                    "time": int(at(clock).timestamp()),
                    "$insert_id": f"insert-{len(self.lines)}",
                    "mp_processing_time_ms": 1714560000000,
                    **properties,
                },
            }
        )

    def web(self, name: str, clock: str, device: str, user: str | None = None, **own: Any) -> None:
        known = {"$user_id": user} if user else {}
        self.event(
            name, clock,
            distinct_id=user or f"$device:{device}",
            **{"$device_id": device, **known, "$os": "Mac OS X", "$browser": "Chrome"},
            **{"mp_country_code": "DE", "$city": "Berlin", "mp_lib": "web", **own},
        )  # fmt: skip

    def page(self, clock: str, device: str, user: str | None = None) -> None:
        url = "https://shop.example/pricing?utm_source=news"
        self.web("$mp_web_page_view", clock, device, user, **{"$current_url": url})

    def story(self) -> bytes:
        self.page("10:00", "d1")
        self.web("logged_in", "10:01", "d1", "ann")
        self.web(STARTED, "10:05", "d1", "ann", plan="pro")
        self.event(PAID, "10:10", distinct_id="ann", mp_lib="python")
        self.page("10:00", "d2")
        self.web(STARTED, "10:02", "d2")
        self.page("10:00", "d3")
        self.page("11:00", "d4")
        self.web("logged_in", "11:01", "d4", "dia")
        self.web(STARTED, "11:10", "d5", "dia", plan="basic")
        self.event(PAID, "11:20", distinct_id="dia", mp_lib="python")
        self.page("12:00", "d1", "eve")
        return lines(self.lines)


FILES: dict[str, Callable[[], bytes]] = {"mixpanel": lambda: Mixpanel().story()}
"""The story as a file, by format."""
