"""Reports a test run: prints long counting tests as they finish, then a summary table.

The report also names slow tests that do not give a reason, and the files that took most of the
processor. A test that counts something adds the
number to its user properties: `("examples", 400)`, `("kills", 20)`. If a test is split into shares,
the `tests` column shows how many. `PENSTOCK_RESULT` names a file for the totals, which
`make test-full` reads.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import json

from tests import cpu_times
from tests.tiers import TIER, Tier

SLOW_S = 5.0
COUNTED = ("examples", "kills")

_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_RESULT = os.environ.get("PENSTOCK_RESULT")
_NUMBERS_GIVEN = {"PENSTOCK_EXAMPLES", "PENSTOCK_KILLS"} & set(os.environ)


@dataclass
class Tally:
    """Results of a test or a group of tests. seconds: total over all workers."""

    tests: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, other: "Tally") -> None:
        self.tests += other.tests
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds
        for name, number in other.counts.items():
            self.counts[name] += number

    def cells(self) -> list[str]:
        numbers = (self.tests, self.failed, self.skipped, round(self.seconds))
        counts = [self.counts.get(name) for name in COUNTED]
        return [*(f"{number:,}" for number in numbers), *(f"{n:,}" if n else "" for n in counts)]


class RunReport:
    """A plugin for the process that prints the summary; it collects the reports of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.tests = defaultdict[str, Tally](Tally)
        self.slow: list[tuple[float, str]] = []
        self.cpu_s = defaultdict[str, float](float)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Copy the reason given in the `slow` marker, because workers report properties but not
        markers.
        """
        if (mark := item.get_closest_marker("slow")) and mark.args:
            item.user_properties.append(("slow", mark.args[0]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if report.when == "teardown":
            self.cpu_s[report.nodeid.partition("::")[0]] += cpu_times.reported_cpu_s(report)
        tally = self.tests[report.nodeid]
        tally.tests = 1
        tally.seconds += report.duration
        tally.failed = max(tally.failed, int(report.failed))
        tally.skipped = max(tally.skipped, int(report.skipped))
        tally.counts.update(
            {name: int(str(properties[name])) for name in COUNTED if name in properties}
        )
        if report.when == "teardown" and tally.counts and _NUMBERS_GIVEN:
            self._write_progress(report.nodeid, tally)
        if report.when == "call" and report.duration > SLOW_S and "slow" not in properties:
            self.slow.append((report.duration, report.nodeid))

    def _write_progress(self, test: str, tally: Tally) -> None:
        """Print a line when a share of a long run ends, because each share takes minutes."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if _IS_WORKER or terminal is None:
            return
        counts = ", ".join(f"{number:,} {name}" for name, number in tally.counts.items())
        result = "failed" if tally.failed else "passed"
        terminal.ensure_newline()
        terminal.write_line(f"{test} {result}: {counts} in {tally.seconds:.0f} s")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if _IS_WORKER:
            return
        for seconds, test in sorted(self.slow, reverse=True):
            terminalreporter.write_line(
                f"warning: {test} took {seconds:.1f} s; say why with pytest.mark.slow(reason)",
                yellow=True,
            )
        if TIER is not Tier.FULL:
            for warning in cpu_times.warnings(self.cpu_s):
                terminalreporter.write_line(warning, yellow=True)
        if len(self.cpu_s) > 1:
            terminalreporter.section("processor time, in seconds")
            for line in cpu_times.dearest(self.cpu_s):
                terminalreporter.write_line(line)
        if len(self.tests) > 1:
            terminalreporter.section("what ran")
            for line in _table(self.tests):
                terminalreporter.write_line(line)
        if _RESULT is not None:
            self._write_result(Path(_RESULT), terminalreporter.stats)

    def _write_result(self, file: Path, stats: Mapping[str, Sequence[object]]) -> None:
        total = Tally()
        for tally in self.tests.values():
            total.add(tally)
        failed = max(total.failed, len(stats.get("failed", ())) + len(stats.get("error", ())))
        result = {
            "passed": total.tests - total.failed - total.skipped,
            "failed": failed,
            "skipped": total.skipped,
            "counts": total.counts,
            "cpu_s": sum(self.cpu_s.values()),
        }
        file.write_bytes(json.encode(result))


def _table(tests: Mapping[str, Tally]) -> Iterator[str]:
    """Yield a line per folder and per test that counts something, then the total."""
    folders, functions = defaultdict[str, Tally](Tally), defaultdict[str, Tally](Tally)
    total = Tally()
    for test, tally in tests.items():
        path, _, name = test.partition("::")
        folders[path.rpartition("/")[0]].add(tally)
        if tally.counts:
            functions[name.partition("[")[0]].add(tally)
        total.add(tally)
    rows = [
        ("", ["tests", "failed", "skipped", "seconds", *COUNTED]),
        *((name, tally.cells()) for name, tally in sorted(folders.items())),
        *((f"  {name}", tally.cells()) for name, tally in sorted(functions.items())),
        ("total", total.cells()),
    ]
    width = max(len(name) for name, _ in rows)
    for name, cells in rows:
        yield f"{name:<{width}}" + "".join(f"{cell:>10}" for cell in cells)
