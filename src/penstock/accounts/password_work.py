"""The queue of everything that hashes a password, because a hash is slow on purpose."""

from penstock.base.fair_queue import FairQueue, QueueLimits

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=40, waiting_per_key=8)
"""Hashing takes 50 ms on one core and 64 MB of memory.

A full queue for one network drains in half a second.
"""


def password_queue() -> FairQueue:
    """Limits concurrent password hashes; its key is the client's network."""
    return FairQueue("log-ins", _LIMITS)
