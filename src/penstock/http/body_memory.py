"""Limits the total memory that large request bodies use.

Bodies of a few kilobytes are not counted, because the limit on connections bounds them.
"""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from penstock.base.errors import Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits

T = TypeVar("T")

COUNTED_BYTES = 16 * 1024
"""Minimum size of a body that is counted, in bytes."""
_INFLATING = QueueLimits(slots=2, slots_per_key=1, waiting=400, waiting_per_key=100)
"""Limits on decompression, by address. It has its own threads, so other routes do not wait for
it.
"""
SCOPE_KEY = "penstock.body"
"""Key of the ASGI scope that holds the request's `HeldBody`."""


class BodyMemory:
    """Counts the bytes of bodies in memory, as sent and decompressed. Thread-safe."""

    def __init__(self, limit: int) -> None:
        """limit: maximum total in bytes. One address may use half of the limit, but can always hold
        one body.
        """
        self._limit, self._held = limit, 0
        self._by_address = Counter[str]()
        self._lock = Lock()
        self.inflating = FairQueue("compressed bodies", _INFLATING)

    def held_bytes(self) -> int:
        """Bytes of all bodies in memory."""
        return self._held

    def has_room(self, address: str, count: int, held: int = 0) -> bool:
        """Whether there is room for `count` more bytes of a body.

        address: empty for a sender without limits. held: bytes of this body already in memory.
        """
        own = self._by_address[address] if address else 0
        is_only = own == held
        return self._held + count <= self._limit and (is_only or own + count <= self._limit // 2)

    def take(self, address: str, count: int, held: int) -> bool:
        """Reserve room for `count` more bytes, if there is any. Returns False if there is none."""
        with self._lock:
            if not self.has_room(address, count, held):
                return False
            self._held += count
            self._by_address[address] += count
            return True

    def release(self, address: str, count: int) -> None:
        with self._lock:
            self._held -= count
            self._by_address[address] -= count
            if not self._by_address[address]:
                del self._by_address[address]


class HeldBody:
    """Memory that the body of one request occupies until the response is sent."""

    __slots__ = ("_bytes", "_memory", "address")

    def __init__(self, memory: BodyMemory, address: str) -> None:
        self._memory, self.address, self._bytes = memory, address, 0

    async def run_in_turn(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a blocking call when it is this address's turn, and return its result.

        Raises `QueueFull` if too many callers are waiting.
        """
        return await self._memory.inflating.run(self.address, call, *arguments)

    def require_room(self, size: int) -> None:
        """Raise `Unavailable` if there is currently no room for a body of this size."""
        if size > COUNTED_BYTES and not self._memory.has_room(self.address, size):
            raise _overloaded()

    def grow_to(self, size: int) -> None:
        """Reserve memory for a body that has grown to `size` bytes.

        Raises `Unavailable` if there is no room.
        """
        if size <= max(COUNTED_BYTES, self._bytes):
            return
        if not self._memory.take(self.address, size - self._bytes, self._bytes):
            raise _overloaded()
        self._bytes = size

    def release(self) -> None:
        if self._bytes:
            self._memory.release(self.address, self._bytes)
            self._bytes = 0


def _overloaded() -> Unavailable:
    return Unavailable(
        "Too many large bodies are being read. Send it again in a moment, with the same IDs.",
        code="overloaded",
        retry_after_s=1,
    )
