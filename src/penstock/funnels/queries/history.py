"""Finds the start of history, even if a few events have a wrong time."""

from collections.abc import Sequence

MAX_PAUSE_MS = 2 * 366 * 86_400_000
"""Longest pause in history, in milliseconds. Events before a longer pause have a wrong time.

A timestamp in seconds instead of milliseconds falls into January 1970, and a device that lost power
restarts its clock in 1970, 1980 or 2000. Two years leave room for a yearly campaign.
"""


def spans_after_last_pause(spans_ms: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Return the spans after the last pause of over two years.

    spans_ms: first and last time of each span, in ascending order.
    """
    for index in range(len(spans_ms) - 1, 0, -1):
        if spans_ms[index][0] - spans_ms[index - 1][1] > MAX_PAUSE_MS:
            return spans_ms[index:]
    return spans_ms
