"""Which browsers have opened which link today, for unique clicks."""

from hashlib import blake2b
from secrets import token_bytes

from penstock.base.ids import LinkId
from penstock.settings import DAY_S

_MAX_BROWSERS = 200_000


class DailyBrowsers:
    """Browsers seen per link since midnight UTC, as hashes under a key that lasts one day.

    In this process's memory only: after a restart, on another node, or beyond 200,000 browsers a
    day (the oldest are forgotten) a browser counts as new again.
    """

    def __init__(self) -> None:
        self._day, self._key = -1, b""
        self._seen: dict[bytes, None] = {}

    def is_first(self, link_id: LinkId, address: str, user_agent: str, now_ms: int) -> bool:
        """Whether the browser opens the link for the first time today; remembers it.

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
