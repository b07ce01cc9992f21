"""Running coroutines from a test, though Playwright keeps an event loop running in the thread of all tests after the first of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

from anyio.from_thread import start_blocking_portal


def run(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """What the coroutine function gives, from an event loop in a thread of its own."""
    with start_blocking_portal() as portal:
        return portal.call(function, *args)
