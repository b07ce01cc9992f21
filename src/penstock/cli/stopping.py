"""Ends the process in time after a signal, even if the engine continues a statement."""

import os
import sys
from functools import cache
from threading import Thread
from time import sleep

import structlog

log = structlog.get_logger()

STOP_WITHIN_S = 50.0
"""Seconds after the first signal until the process ends. systemd and Compose kill it after 60."""


@cache  # Only the first signal starts the timer.
def limit_stop(within_s: float = STOP_WITHIN_S) -> None:
    """End the process with 1 if it has not ended by itself in this time."""
    Thread(target=_end_late, args=(within_s,), name="stop_limit", daemon=True).start()


def _end_late(within_s: float) -> None:
    sleep(within_s)
    log.error("stop_took_too_long", seconds=within_s)
    end_now(1)


def end_now(code: int) -> None:
    """End the process without waiting for its threads.

    This loses no more than SIGKILL does: every event, click and change is on the disk before its
    request gets a response.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
