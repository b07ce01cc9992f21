"""The policy of stored outcomes: which of them are built, kept, evaluated again and compared. No
I/O.
"""

from penstock.funnels.outcomes.model import Backlog, Mark
from penstock.settings import DAY_S

RETRY_MS = 600_000
"""Milliseconds between a failed build and the next attempt."""
MANY_UNITS = 200_000
"""Number of changed units above which a new build is cheaper than evaluating them again."""
FEW_EVENTS = 50_000
"""Maximum backlog of new events that a query evaluates itself. Larger backlogs are left to the
worker, which starts early: when the backlog exceeds a tenth of this.
"""
LOCK_S = 5.0
"""Seconds that the worker waits for a lock before it continues with other work."""
SHORT_LOCK_S = 1.0
"""Seconds to wait for a lock that another process is likely to hold for a long time, or that a
query waits for. The query then reads events.
"""
COMPARED_EVERY_MS = 600_000
"""Time between two comparisons of some units of an outcome with their events, in milliseconds."""
COMPARED_SHARE = 100
"""Each comparison checks one in this many units, and reads all events of these units."""

_UNUSED_MS = 30 * DAY_S * 1000
"""Time after its last query at which an outcome is dropped, in milliseconds."""
_RECENT_QUERY_MS = 3_600_000
"""Time after a query for which its outcome is kept up to date without further queries, in
milliseconds.
"""
_AHEAD_MS = 60_000
"""Tolerated difference between the clocks of nodes, in milliseconds."""
_MIN_UNITS, _MAX_UNITS = 10_000, 50_000
"""Bounds for the number of changed units that a query evaluates itself."""
_EVENTS_PER_UNIT = 200
"""Number of events that can be read in the time that it takes to evaluate one changed unit."""


def is_unused(mark: Mark, now_ms: int) -> bool:
    """Whether an outcome was last queried so long ago that its rows are dropped."""
    return mark.queried_at_ms < now_ms - _UNUSED_MS


def is_in_use(mark: Mark, now_ms: int) -> bool:
    """Whether an outcome was queried so recently that the worker keeps it up to date."""
    return mark.queried_at_ms > now_ms - _RECENT_QUERY_MS


def is_ahead(mark: Mark, now_ms: int) -> bool:
    """Whether rows include events up to a time that is far in the future, because the clock was
    ahead. No query can use them until then.
    """
    return mark.read_until_ms > now_ms + _AHEAD_MS


def is_worth_updating(backlog: Backlog) -> bool:
    """Whether the worker should evaluate new events before a query needs them."""
    return backlog.events > FEW_EVENTS // 10


def units_worth_evaluating(backlog: Backlog) -> int:
    """Return the largest number of changed units that take less time to evaluate than reading all
    events.
    """
    return min(max(backlog.events_in_all // _EVENTS_PER_UNIT, _MIN_UNITS), _MAX_UNITS)


def compared_sample(number: int, marks: int) -> tuple[int, tuple[int, int]]:
    """Return the outcome and the share of its units that comparison `number` reads.

    Each time, an outcome gets a different share, so that every unit is compared in the end.
    """
    return number % marks, (COMPARED_SHARE, number // marks % COMPARED_SHARE)
