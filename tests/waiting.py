"""Lets tests wait for a state, never for a fixed time.

A loaded machine is slow but not wrong. So a test polls until the state is reached, and gives up
only after `PATIENCE_S`, which no working machine needs. Polls slow down the work that the test
waits for, so they become less frequent.
"""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.1


def eventually(holds: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Call `holds` repeatedly, and return its first true result."""
    until_s, pause_s = time.monotonic() + within_s, _FIRST_PAUSE_S
    while not (result := holds()):
        assert time.monotonic() < until_s, "the condition never became true"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
    return result
