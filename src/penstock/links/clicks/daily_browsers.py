"""Remembers which browsers have opened which links today, to count unique clicks."""

from hashlib import blake2b
from secrets import token_bytes

from penstock.base.ids import LinkId
from penstock.settings import DAY_S

_MAX_BROWSERS = 200_000


class DailyBrowsers:
    """Tracks which browsers have opened each link since midnight UTC. It stores hashes, whose key
    changes every day.

    The hashes are only in this process's memory. After a restart, or on another node, a browser
    counts as new again. Beyond 200,000 browsers a day, the oldest are forgotten.
    """

    def __init__(self) -> None:
        self._day, self._key = -1, b""
        self._seen: dict[bytes, None] = {}

    def is_first(self, link_id: LinkId, address: str, user_agent: str, now_ms: int) -> bool:
        """Whether this is the browser's first visit to the link today. Remembers the browser.

        Not thread-safe: call it on the event loop.
        """
        day = now_ms // (DAY_S * 1000)
        if day != self._day:
            self._day, self._key = day, token_bytes(32)
            self._seen.clear()
        browser = blake2b(
            f"{link_id}\0{address}\0{user_agent}".encode(errors="replace"),
            key=self._key,
            digest_size=16,
        ).digest()
        if browser in self._seen:
            return False
        if len(self._seen) >= _MAX_BROWSERS:
            del self._seen[next(iter(self._seen))]
        self._seen[browser] = None
        return True
