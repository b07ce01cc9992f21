"""Runs coroutines from a test.

Playwright keeps an event loop running in the test's thread, so coroutines need another thread.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from anyio.from_thread import start_blocking_portal


def run(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Run a coroutine function on an event loop in another thread, and return its result."""
    with start_blocking_portal() as portal:
        return portal.call(function, *args)
