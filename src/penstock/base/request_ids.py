"""Request IDs: the client's own ID if it is usable, otherwise a new one.

The ID appears in the response's `X-Request-Id`, in problem documents and in every log line about
the request.
"""

from collections.abc import MutableMapping
from contextvars import ContextVar
from itertools import count
from random import getrandbits
from typing import Any

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The ID of the current request; empty outside requests. Threads that work for the request also see
it.
"""

_MAX_LENGTH = 128
_64_BITS = 2**64 - 1
_ALLOWED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


_numbers = count(getrandbits(64))


def new_request_id() -> str:
    """Return 16 hexadecimal digits: a counter with a random start, so IDs do not repeat in a
    process.

    The ID is not secret: nothing depends on it being hard to guess.
    """
    return "%016x" % (next(_numbers) & _64_BITS)


def request_id_of(sent: bytes | None) -> str:
    """Return the ID that a client or proxy sent if it is short and plain, otherwise a new one.

    sent: the value of `X-Request-Id`.
    """
    if sent and len(sent) <= _MAX_LENGTH and _ALLOWED.issuperset(sent):
        return sent.decode("ascii")
    return new_request_id()


def add_request_id(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Log processor that adds the request ID."""
    if request_id := REQUEST_ID.get():
        event.setdefault("request_id", request_id)
    return event
