"""Opaque record IDs with a type prefix. No code may parse an ID."""

import os
import secrets
from collections.abc import Sequence
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


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
MAX_NUMBERED = len(_PAIRS) ** 2
"""Number of IDs that `numbered_ids` can create for one time."""


def numbered_ids(prefix: str, now_ms: int, seeds: Sequence[bytes | None], first: int) -> list[str]:
    """Return the IDs of records that are created at the same time, numbered from `first`.

    They have the form of `new_id`. IDs of equal times sort by number, which is below
    `MAX_NUMBERED`. seeds: 16 bytes for each record, which no one can guess, from which the rest of
    its ID is derived; None chooses it at random.
    """
    start = f"{prefix}_{_time_digits(now_ms)}"
    digits = b"".join(seed or secrets.token_bytes(16) for seed in seeds).translate(_DIGIT_OF_BYTE)
    texts = digits.decode()
    return [
        f"{start}{_PAIRS[number >> 10]}{_PAIRS[number & 1023]}{texts[at : at + _SEED_DIGITS]}"
        for number, at in enumerate(range(0, len(texts), 16), first)
    ]


# The first byte of a packed ID. IDs of Penstock have 130 bits, so their first byte is below 4.
_UUID, _TEXT = b"\x04", b"\x05"
_PACKED_BYTES, _ID_DIGITS, _UUID_LENGTH = 17, 26, 36
_PYTHON_DIGITS = "0123456789abcdefghijklmnopqrstuv"
# Other characters that Python accepts in a number become invalid.
_TO_PYTHON = bytearray(b"!" * 256)
for _digit, _python_digit in zip(_ALPHABET, _PYTHON_DIGITS, strict=True):
    _TO_PYTHON[ord(_digit)] = ord(_python_digit)


@lru_cache(maxsize=10_000)
def packed_id(prefix: str, text: str) -> bytes:
    """Return any ID in few bytes: 17 for a UUID, and for an ID of Penstock with this prefix."""
    try:
        if len(text) == len(prefix) + 1 + _ID_DIGITS and text.startswith(f"{prefix}_"):
            digits = text[len(prefix) + 1 :].encode("ascii").translate(_TO_PYTHON)
            return int(digits, 32).to_bytes(_PACKED_BYTES)
        if len(text) == _UUID_LENGTH:
            packed = bytes.fromhex(text.replace("-", ""))
            if _as_uuid(packed.hex()) == text:
                return _UUID + packed
    except ValueError:
        pass  # The ID only looks like that.
    return _TEXT + text.encode()


def unpacked_id(prefix: str, packed: bytes) -> str:
    """Return the ID from which `packed_id` made these bytes."""
    rest = packed[1:]
    if packed.startswith(_TEXT):
        return rest.decode()
    if packed.startswith(_UUID):
        return _as_uuid(rest.hex())
    number = int.from_bytes(packed)
    return f"{prefix}_" + "".join(
        [_ALPHABET[number >> shift & 31] for shift in range(5 * (_ID_DIGITS - 1), -1, -5)]
    )


def _as_uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_RANDOM_DIGITS = 16
_SEED_DIGITS = 12
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
