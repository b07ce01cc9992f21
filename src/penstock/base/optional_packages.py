"""Imports libraries without packages that they would use if these were installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_package(name: str) -> Iterator[None]:
    """Hide a package, so that a library imported during the context works without it.

    Use it only while the process starts, because other threads cannot find the package either.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
