"""The queue for all work that hashes a password, and its routes. Hashing is deliberately slow."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.networks import client_network
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest, address_of

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=40, waiting_per_key=8)
"""Limits of the queue. Hashing takes 50 ms on one core and 64 MB of memory.

One network's queue, when full, drains in half a second.
"""

password_route = partial(route, runs_in="run_password_work")
"""Like `route`, for a function that hashes a password. It runs in the queue."""


def password_queue() -> FairQueue:
    """Create the queue that limits concurrent password hashes. Its key is the client's network."""
    return FairQueue("log-ins", _LIMITS)


async def provide_run_password_work(
    request: AnyRequest, password_work: FairQueue
) -> Callable[..., Awaitable[Any]]:
    """Return the function that runs work for a request in the queue."""
    return partial(password_work.run, client_network(address_of(request)))
