"""The queue of everything that hashes a password, because a hash is slow on purpose."""

from penstock.base.fair_queue import FairQueue, QueueLimits

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=40, waiting_per_key=8)
"""A hash takes 50 ms of a core and 64 MB. A full queue of one network takes half a second."""


def password_queue() -> FairQueue:
    """Limits concurrent password hashes; its key is the client's network."""
    return FairQueue("log-ins", _LIMITS)
