"""Opaque record IDs with a type prefix. No code may parse an ID."""

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

    Reads random bytes once: each system call makes the thread release the interpreter lock.
    """
    start, random = f"{prefix}_{_time_digits(now_ms)}", secrets.token_bytes(10 * count)
    numbers = sorted(
        int.from_bytes(random[start_at : start_at + 10], "big")
        for start_at in range(0, 10 * count, 10)
    )
    return [start + _base32(number, 16) for number in numbers]
