"""The queue for everything that hashes a password, because hashing is slow on purpose."""

from penstock.base.fair_queue import FairQueue, QueueLimits

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=40, waiting_per_key=8)
"""Limits of the queue. Hashing takes 50 ms on one core and 64 MB of memory.

A full queue for one network drains in half a second.
"""


def password_queue() -> FairQueue:
    """Create the queue that limits concurrent password hashes. Its key is the client's network."""
    return FairQueue("log-ins", _LIMITS)
