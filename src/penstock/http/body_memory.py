"""The memory that all large request bodies take together.

Bodies of a few kilobytes do not count: the limit of connections bounds them.
"""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from penstock.base.errors import Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits

T = TypeVar("T")

COUNTED_BYTES = 16 * 1024
"""Size from which a body counts, in bytes."""
_INFLATING = QueueLimits(slots=2, slots_per_key=1, waiting=400, waiting_per_key=100)
"""By address: bodies are decompressed in threads of their own, which no other route waits for."""
SCOPE_KEY = "penstock.body"
"""Where the ASGI scope has the `HeldBody` of a request."""


class BodyMemory:
    """How many bytes of bodies are in memory, as sent and decompressed. Threads may call it."""

    def __init__(self, limit: int) -> None:
        """limit: in bytes; one address may use half of it, and in any case hold one body."""
        self._limit, self._held = limit, 0
        self._by_address = Counter[str]()
        self._lock = Lock()
        self.inflating = FairQueue("compressed bodies", _INFLATING)

    def held(self) -> int:
        """Bytes of all bodies."""
        return self._held

    def has_room(self, address: str, count: int, held: int = 0) -> bool:
        """Whether there is room for more bytes of a body.

        address: empty for one without limits. held: bytes of this body that are in memory.
        """
        own = self._by_address[address] if address else 0
        is_only = own == held
        return self._held + count <= self._limit and (is_only or own + count <= self._limit // 2)

    def take(self, address: str, count: int, held: int) -> bool:
        """Reserve room, if there is any. Returns whether there was."""
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
    """The memory that the body of one request occupies until the request is answered."""

    __slots__ = ("_bytes", "_memory", "address")

    def __init__(self, memory: BodyMemory, address: str) -> None:
        self._memory, self.address, self._bytes = memory, address, 0

    async def in_turn(self, call: Callable[..., T], *arguments: object) -> T:
        """What a blocking call returns, when it is the turn of the body's address. `QueueFull`."""
        return await self._memory.inflating.run(self.address, call, *arguments)

    def require_room(self, size: int) -> None:
        """`Unavailable` when a body of this size has no room now."""
        if size > COUNTED_BYTES and not self._memory.has_room(self.address, size):
            raise _overloaded()

    def grow_to(self, size: int) -> None:
        """Reserve memory for the body, which has this size by now. `Unavailable` without room."""
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
