"""Opaque record IDs with a type prefix. No code judges an ID by its looks."""

import secrets
from typing import NewType

WorkspaceId = NewType("WorkspaceId", str)
UserAccountId = NewType("UserAccountId", str)
WebsiteId = NewType("WebsiteId", str)
KeyId = NewType("KeyId", str)
FunnelId = NewType("FunnelId", str)
GoalId = NewType("GoalId", str)
EventId = NewType("EventId", str)
ImportId = NewType("ImportId", str)
VisitorId = NewType("VisitorId", str)
ScopeId = NewType("ScopeId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _base32(value: int, length: int) -> str:
    digits = [""] * length
    for place in range(length - 1, -1, -1):
        value, digit = divmod(value, 32)
        digits[place] = _ALPHABET[digit]
    return "".join(digits)


def new_id(prefix: str, now_ms: int) -> str:
    """A new ID: `prefix_` and 26 characters, 50 bits of time before 80 random bits.

    Later IDs sort after earlier ones to the millisecond, which keeps index pages warm; nothing may rely on more.
    """
    return f"{prefix}_{_base32(now_ms, 10)}{_base32(secrets.randbits(80), 16)}"
