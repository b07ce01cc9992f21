"""Imports of libraries without packages that they use if installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_package(name: str) -> Iterator[None]:
    """Hide a package, so that a library imported in this context does without it.

    Use it only at the start of the process: other threads do not find the package either.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
