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
ExportId = NewType("ExportId", str)
LinkId = NewType("LinkId", str)
ClickId = NewType("ClickId", str)
VisitorId = NewType("VisitorId", str)
ScopeId = NewType("ScopeId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 10


@lru_cache(maxsize=1000)
def _time_digits(now_ms: int) -> str:
    """Return the time in base 32, most significant digit first."""
    shifts = range(5 * (_TIME_DIGITS - 1), -1, -5)
    return "".join([_ALPHABET[now_ms >> shift & 31] for shift in shifts])


def new_id(prefix: str, now_ms: int) -> str:
    """Return a new ID: `prefix_` and 26 characters, which encode 50 bits of time and 80 random
    bits.

    IDs sort by the millisecond of their creation, which keeps index pages warm. They guarantee no
    finer order.
    """
    return new_ids(prefix, now_ms, 1)[0]


def new_ids(prefix: str, now_ms: int, count: int) -> list[str]:
    """Return several new IDs in ascending order.

    Random bytes are read for many IDs at once, because each system call makes the thread release
    the interpreter lock.
    """
    start = f"{prefix}_{_time_digits(now_ms)}"
    return [start + digits for digits in sorted(_random_digits(count))]


def first_id(prefix: str, at_ms: int) -> str:
    """Return a text that sorts before the IDs that are created from a time on, and after earlier
    ones.
    """
    return f"{prefix}_{_time_digits(at_ms)}"


_RANDOM_DIGITS = 16
_DIGIT_OF_BYTE = bytes(ord(_ALPHABET[byte % 32]) for byte in range(256))
_READ_AHEAD = 400
_unused_digits: list[str] = []
os.register_at_fork(after_in_child=_unused_digits.clear)


def _random_digits(count: int) -> list[str]:
    """Return strings of 80 random bits in base 32, from the system's random source. Thread-safe."""
    taken = list[str]()
    while len(taken) < count:
        try:
            taken.append(_unused_digits.pop())
        except IndexError:
            random = secrets.token_bytes(_RANDOM_DIGITS * _READ_AHEAD)
            digits = random.translate(_DIGIT_OF_BYTE).decode()
            _unused_digits.extend(
                [
                    digits[start : start + _RANDOM_DIGITS]
                    for start in range(0, len(digits), _RANDOM_DIGITS)
                ]
            )
    return taken
