"""Processor time of a test run, in seconds, by test file.

A worker measures itself and every program that it has started, when it has finished with a file.
Shared programs, such as a browser, count for the file that starts or uses them.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import psutil
import pytest

LIMIT_S = 60
EXPECTED_ABOVE_LIMIT: Mapping[str, str] = {}
"""Files of `make test` that may take more than `LIMIT_S`, with the reason."""

_PROPERTY = "cpu_s"
_DEAREST = 10


class FileTimer:
    """A plugin for the process that runs tests."""

    def __init__(self) -> None:
        self._counted_s = spent_cpu_s()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Add the time since the last file to the properties of a file's last test."""
        result = yield
        if nextitem is None or nextitem.path != item.path:
            spent_s = spent_cpu_s()
            item.user_properties.append((_PROPERTY, max(0.0, spent_s - self._counted_s)))
            self._counted_s = spent_s
        return result


def spent_cpu_s() -> float:
    """Return the processor time of this process and of everything it has started, in seconds."""
    this, spent_s = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent_s += times.user + times.system + times.children_user + times.children_system
    return spent_s


def reported_cpu_s(report: pytest.TestReport) -> float:
    """Return the time that the report adds to its file."""
    return sum(float(str(value)) for name, value in report.user_properties if name == _PROPERTY)


def dearest(files: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each of the files that took most.

    files: processor time in seconds by path.
    """
    by_time = sorted(files.items(), key=lambda item: -item[1])
    for path, spent_s in by_time[:_DEAREST]:
        yield f"{spent_s:>8.0f}  {path}"
    yield f"{sum(files.values()):>8.0f}  all {len(files)} files"


def warnings(files: Mapping[str, float]) -> Iterator[str]:
    """Yield a warning for each file above the limit without a reason. Machines differ, so this
    never fails a run.
    """
    for path, spent_s in sorted(files.items()):
        if spent_s > LIMIT_S and path not in EXPECTED_ABOVE_LIMIT:
            yield (
                f"warning: {path} took {spent_s:.0f} CPU seconds, more than {LIMIT_S}:"
                " move tests to a cheaper tier, or give the reason in tests/cpu_times.py"
            )
