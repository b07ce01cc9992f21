"""Packages that may be missing: how to install the extras, and how to import a library without a
package that it would use if it were installed.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra of this package."""
    return f"{sys.executable} -m pip install 'penstock-server[{extra}]'"


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
