"""The queue for all work that hashes a password. Hashing is deliberately slow."""

from penstock.base.fair_queue import FairQueue, QueueLimits

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=40, waiting_per_key=8)
"""Limits of the queue. Hashing takes 50 ms on one core and 64 MB of memory.

One network's queue, when full, drains in half a second.
"""


def password_queue() -> FairQueue:
    """Create the queue that limits concurrent password hashes. Its key is the client's network."""
    return FairQueue("log-ins", _LIMITS)
