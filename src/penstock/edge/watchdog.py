"""Watches the event loop: measures how long ready callbacks wait, and finds code that blocks the
loop.

The loop serves all clients, so nothing may block it for long. Ten times a second, a thread
schedules a callback on the loop. If the callback is late, the thread logs the code that the loop is
running.
"""

import asyncio
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event, Thread, get_ident

import structlog
from anyio import to_thread

from penstock.base.metrics import counter, histogram

log = structlog.get_logger()

_LAG_S = histogram(
    "penstock_event_loop_lag_seconds",
    "How long a callback that is ready waits for the event loop.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_STALLS = counter(
    "penstock_event_loop_stalls", "Number of times that the event loop was blocked for long."
)

_PERIOD_S = 0.1
_STALL_S = 0.25
_LOG_EVERY_S = 10.0
_DEEPEST_FRAMES = 12


class LoopWatchdog:
    """Measures the lag of the running event loop."""

    def __init__(self, *, stall_s: float = _STALL_S, log_every_s: float = _LOG_EVERY_S) -> None:
        """stall_s: minimum lag to log, in seconds. log_every_s: minimum time between two log
        lines.
        """
        self._stall_s, self._log_every_s = stall_s, log_every_s
        self._stopping = Event()
        self._logged_at_s = -log_every_s

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the caller's event loop during the context."""
        loop, loop_thread = asyncio.get_running_loop(), get_ident()
        self._stopping.clear()
        thread = Thread(
            target=self._watch, args=(loop, loop_thread), name="loop_watchdog", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            await to_thread.run_sync(thread.join)

    def _watch(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        while not self._stopping.wait(_PERIOD_S):
            has_run = Event()
            scheduled_s = time.monotonic()
            try:
                loop.call_soon_threadsafe(has_run.set)
            except RuntimeError:  # the loop is closed
                return
            if not has_run.wait(self._stall_s):
                self._note_stall(loop_thread)
                while not has_run.wait(_PERIOD_S):
                    if self._stopping.is_set():
                        return
            _LAG_S.observe(time.monotonic() - scheduled_s)

    def _note_stall(self, loop_thread: int) -> None:
        _STALLS.inc()
        now_s = time.monotonic()
        if now_s - self._logged_at_s < self._log_every_s:
            return
        self._logged_at_s = now_s
        log.warning(
            "event_loop_blocked", longer_than_s=self._stall_s, frames=_frames_of(loop_thread)
        )


def _frames_of(thread: int) -> list[str]:
    """Return the stack of a thread, innermost frame last. Contains code locations only, no
    values.
    """
    frame = sys._current_frames().get(thread)
    frames = traceback.extract_stack(frame)[-_DEEPEST_FRAMES:]
    return [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in frames]
