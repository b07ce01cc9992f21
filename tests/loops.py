"""Running coroutines from a test.

Playwright keeps an event loop running in the thread of the tests, so they need another thread.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from anyio.from_thread import start_blocking_portal


def run(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """The result of the coroutine function, from an event loop in another thread."""
    with start_blocking_portal() as portal:
        return portal.call(function, *args)
