"""The ID of a request: of the client, if it sent a usable one, else a new one.

It is in the answer's `X-Request-Id`, in problem documents and in every line that the log has of
the request.
"""

from collections.abc import MutableMapping
from contextvars import ContextVar
from itertools import count
from random import getrandbits
from typing import Any

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that runs now, in its threads too; empty outside requests."""

_MAX_LENGTH = 128
_64_BITS = 2**64 - 1
_ALLOWED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


_numbers = count(getrandbits(64))


def new_request_id() -> str:
    """16 hexadecimal digits: a random start and a count, so that no two of a process are equal.

    Not a secret: nothing depends on its being hard to guess.
    """
    return "%016x" % (next(_numbers) & _64_BITS)


def request_id_of(sent: bytes | None) -> str:
    """The ID that a client or proxy sent; a new one unless it is short and plain.

    sent: the value of `X-Request-Id`.
    """
    if sent and len(sent) <= _MAX_LENGTH and _ALLOWED.issuperset(sent):
        return sent.decode("ascii")
    return new_request_id()


def add_request_id(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of the log."""
    if request_id := REQUEST_ID.get():
        event.setdefault("request_id", request_id)
    return event
