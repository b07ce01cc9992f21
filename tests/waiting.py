"""How tests wait: for a state, never for a time.

A loaded machine is slow, not wrong. So a test polls until the state is
there, and gives up only after `PATIENCE_S`, which no working machine needs.
"""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0


def eventually(holds: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """The first true result of repeated calls."""
    until_s = time.monotonic() + within_s
    while not (result := holds()):
        assert time.monotonic() < until_s, "the condition never became true"
        time.sleep(0.01)
    return result
