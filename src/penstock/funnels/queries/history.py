"""What counts as history when a few events have a wrong time."""

from collections.abc import Sequence

MAX_PAUSE_MS = 2 * 366 * 86_400_000
"""History has no pause longer than two years: what lies before such a pause has a wrong time.

A timestamp sent in seconds instead of milliseconds ends up in January 1970, and the clock of a
device that lost power in 1970, 1980 or 2000. Two years leave room for a campaign once a year.
"""


def after_last_pause(spans_ms: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Spans after the last pause of over two years. spans_ms: first and last, ascending."""
    for place in range(len(spans_ms) - 1, 0, -1):
        if spans_ms[place][0] - spans_ms[place - 1][1] > MAX_PAUSE_MS:
            return spans_ms[place:]
    return spans_ms
