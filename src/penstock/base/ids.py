"""Opaque record IDs with a type prefix. No code may parse an ID."""

import os
import secrets
from functools import lru_cache
from typing import NewType

WorkspaceId = NewType("WorkspaceId", str)
UserAccountId = NewType("UserAccountId", str)
WebsiteId = NewType("WebsiteId", str)
KeyId = NewType("KeyId", str)
SessionId = NewType("SessionId", str)
InvitationId = NewType("InvitationId", str)
FunnelId = NewType("FunnelId", str)
GoalId = NewType("GoalId", str)
EventId = NewType("EventId", str)
ImportId = NewType("ImportId", str)
DeletionId = NewType("DeletionId", str)
LinkId = NewType("LinkId", str)
ClickId = NewType("ClickId", str)
VisitorId = NewType("VisitorId", str)
ScopeId = NewType("ScopeId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TEN_BITS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


def _base32(value: int, length: int) -> str:
    """Base 32, most significant digit first. length: number of digits, even."""
    return "".join([_TEN_BITS[value >> shift & 1023] for shift in range(length * 5 - 10, -1, -10)])


@lru_cache(maxsize=1000)
def _time_digits(now_ms: int) -> str:
    return _base32(now_ms, 10)


def new_id(prefix: str, now_ms: int) -> str:
    """A new ID: `prefix_` and 26 characters, 50 bits of time followed by 80 random bits.

    IDs sort by millisecond of creation, which keeps index pages warm; rely on nothing more.
    """
    return new_ids(prefix, now_ms, 1)[0]


def new_ids(prefix: str, now_ms: int, count: int) -> list[str]:
    """Several new IDs in ascending order.

    Random bytes are read for many IDs at once: each system call makes the thread release the
    interpreter lock.
    """
    start = f"{prefix}_{_time_digits(now_ms)}"
    return [start + _base32(number, 16) for number in sorted(_random_numbers(count))]


_NUMBER_BYTES = 10
_READ_AHEAD = 400
_unused_numbers: list[int] = []
os.register_at_fork(after_in_child=_unused_numbers.clear)


def _random_numbers(count: int) -> list[int]:
    """Numbers of 80 random bits, from the system's source. Threads may call it."""
    numbers = list[int]()
    while len(numbers) < count:
        try:
            numbers.append(_unused_numbers.pop())
        except IndexError:
            random = secrets.token_bytes(_NUMBER_BYTES * _READ_AHEAD)
            _unused_numbers.extend(
                [
                    int.from_bytes(random[start : start + _NUMBER_BYTES], "big")
                    for start in range(0, len(random), _NUMBER_BYTES)
                ]
            )
    return numbers
