"""The policy of stored outcomes: which of them are built, kept, evaluated again and compared. No
I/O.
"""

from enum import Enum, auto

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
_FEW_UNITS, _MOST_UNITS = 10_000, 50_000
"""Bounds for the number of changed units that a query evaluates itself."""
_EVENTS_PER_UNIT = 200
"""Number of events that can be read in the time that it takes to evaluate one changed unit."""


class Upkeep(Enum):
    """The work that an outcome needs."""

    NOTHING = auto()
    DROP = auto()
    UPDATE = auto()


def upkeep(queried_at_ms: int, now_ms: int, *, is_interrupted: bool) -> Upkeep:
    """Return the work that an outcome needs, based on the time of its last query.

    is_interrupted: whether a change of its rows was not finished.
    """
    if queried_at_ms < now_ms - _UNUSED_MS:
        return Upkeep.DROP
    if is_interrupted or is_in_use(queried_at_ms, now_ms):
        return Upkeep.UPDATE
    return Upkeep.NOTHING


def is_in_use(queried_at_ms: int, now_ms: int) -> bool:
    """Whether an outcome was queried so recently that the worker keeps it up to date."""
    return queried_at_ms > now_ms - _RECENT_QUERY_MS


def is_ahead(mark: Mark, now_ms: int) -> bool:
    """Whether rows include events up to a time that is far in the future, because the clock was
    ahead. No query can use them until then.
    """
    return mark.read_until_ms > now_ms + _AHEAD_MS


def rows_fit(mark: Mark, newest_insert: int | None) -> bool:
    """Whether the mark counts every event in the rows.

    If a process was killed, the rows may include events that the mark does not count. If these
    events were deleted, nobody would notice. newest_insert: number of the newest insert that a row
    includes; None if there are no rows.
    """
    return newest_insert is not None and newest_insert <= mark.events_block


def is_worth_updating(backlog: Backlog) -> bool:
    """Whether the worker should evaluate new events before a query needs them."""
    return backlog.events > FEW_EVENTS // 10


def units_worth_evaluating(backlog: Backlog) -> int:
    """Return the largest number of changed units that take less time to evaluate than reading all
    events.
    """
    return min(max(backlog.events_in_all // _EVENTS_PER_UNIT, _FEW_UNITS), _MOST_UNITS)


def compared_sample(number: int, marks: int) -> tuple[int, tuple[int, int]]:
    """Return the outcome and the share of its units that comparison `number` reads.

    Each time, an outcome gets a different share, so that every unit is compared in the end.
    """
    return number % marks, (COMPARED_SHARE, number // marks % COMPARED_SHARE)
