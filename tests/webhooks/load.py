"""Sends outcomes to a receiver on this machine, and prints how fast they arrive.

    python -m tests.webhooks.load [RATE] [SECONDS]

RATE: units that enter in a second, 1,000 by default. SECONDS: 30 by default.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep

from penstock.base.clock import iso, parse_time, system_clock
from tests import programs
from tests.answers import body_of
from tests.processes import new_python
from tests.serving import Served
from tests.waiting import eventually
from tests.webhooks.receiver import Receiver, receiver
from tests.webhooks.test_kills import LIMITS, SETTINGS, Shop

_BATCH = 100


class LoadedShop(Shop):
    """A shop whose units enter at a rate. The service is a separate process."""

    def serve(self) -> Served:
        key = getattr(self, "key", None)
        return Served(self.data, limits=LIMITS, key=key, start=new_python, **SETTINGS)

    def enter(self, units: int) -> None:
        """Send the entries of new units."""
        events = [
            {
                "type": "event",
                "name": "A",
                "visitorId": f"v{number}",
                "timestamp": iso(system_clock()),
                "properties": {"attempt": f"a{number}"},
            }
            for number in range(self.sent, self.sent + units)
        ]
        body = {"websiteId": self.website_id, "events": events}
        assert body_of(self.service.client.post("/api/track", json=body), 202)["rejected"] == 0
        self.sent += units


class TimedReceiver:
    """Notes when the messages of each request arrive."""

    def __init__(self, inbox: Receiver) -> None:
        self.inbox, self.delays_ms, self._seen = inbox, list[int](), 0

    def note(self) -> int:
        """Read the requests since the last call. Returns the number of messages so far."""
        now_ms, requests = system_clock(), self.inbox.requests[self._seen :]
        self._seen += len(requests)
        for _, messages in requests:
            self.delays_ms += [now_ms - parse_time(message["timestamp"]) for message in messages]
        return len(self.delays_ms)


def main(rate: int, seconds: int) -> None:
    programs.enter()
    with TemporaryDirectory() as folder, receiver() as inbox:
        shop, timed = LoadedShop(Path(folder) / "data", inbox.url), TimedReceiver(inbox)
        total, began_s = rate * seconds, monotonic()

        def send() -> None:
            for number in range(total // _BATCH):
                sleep(max(0.0, began_s + number * _BATCH / rate - monotonic()))
                shop.enter(_BATCH)

        sender = Thread(target=send)
        sender.start()
        while (count := timed.note()) < total:
            assert monotonic() < began_s + 10 * seconds, f"only {count} of {total} messages"
            sleep(0.02)
        took_s = monotonic() - began_s
        sender.join()
        units = [message["data"]["unit"] for message in inbox.messages]
        delays = sorted(timed.delays_ms)
        print(
            f"{total:,} outcomes at {rate:,} a second: all after {took_s:.1f} s,"
            f" {total / took_s:,.0f} a second, in {len(inbox.requests):,} requests;"
            f" {len(units) - len(set(units))} repeated;"
            f" from the event to its message {delays[total // 2] / 1000:.1f} s at the median,"
            f" {delays[total * 99 // 100] / 1000:.1f} s at the 99th percentile"
        )
        eventually(lambda: shop.hook()["waiting"] == 0)
        assert shop.service.stop() == 0


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("1000", "30")))
