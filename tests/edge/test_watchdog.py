"""The watchdog of the event loop."""

import asyncio
import time

from structlog.testing import capture_logs

from penstock.base.metrics import REGISTRY
from penstock.edge.watchdog import LoopWatchdog
from tests import loops


def stalls() -> float:
    return REGISTRY.get_sample_value("penstock_event_loop_stalls_total") or 0


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def held(watchdog: LoopWatchdog, times: int) -> None:
    async with watchdog.running():
        for _ in range(times):
            before = stalls()
            while stalls() == before:  # until the watchdog has checked the loop
                hold_the_loop(1.0)
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)


def test_code_that_blocks_the_loop_is_logged_with_its_stack():
    with capture_logs() as logs:
        loops.run(held, LoopWatchdog(stall_s=0.5), 2)
    [entry] = [entry for entry in logs if entry["event"] == "event_loop_blocked"]
    assert any(frame.endswith("hold_the_loop") for frame in entry["frames"])


def test_a_free_loop_has_no_stall():
    async def free() -> None:
        async with LoopWatchdog(stall_s=30).running():
            await asyncio.sleep(0.3)

    before = stalls()
    loops.run(free)
    assert stalls() == before
    lags = REGISTRY.get_sample_value("penstock_event_loop_lag_seconds_count")
    assert lags is not None
    assert lags > 0
