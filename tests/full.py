"""Runs `make test-full` in parts, and notes each in docs/development/test-runs.md.

    python -m tests.full                 # all parts that have not passed on this commit
    python -m tests.full http shards     # these parts
    python -m tests.full --age           # warn of parts whose last run is old

A part stands alone, so a run that was interrupted continues with the parts that are missing. The
page is the only record: a part has passed if its row there has this commit and no failures.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "development" / "test-runs.md"
MAX_AGE = 200
"""Commits after which a row of the page is old."""

_NEVER = "never"
_COLUMNS = ("date", "commit", "passed", "failed", "skipped", "counted", "minutes", "CPU seconds")
_ALONE = ("tests/browser", "tests/faults", "tests/fuzz", "tests/sdk", "tests/segment")
_RANDOM = (
    *("tests/funnels/test_property.py", "tests/funnels/test_property_units.py"),
    "tests/funnels/test_property_outcomes.py",
)
_KILLED = (
    *("tests/events/test_kills.py", "tests/events/test_nodes.py"),
    *("tests/events/imports/test_kills.py", "tests/events/deletions/test_kills.py"),
    *("tests/funnels/test_outcome_kills.py", "tests/funnels/test_outcome_nodes.py"),
    *("tests/links/clicks/test_clicks.py", "tests/stores/test_upgrade.py", "tests/backup"),
)


@dataclass(frozen=True)
class Part:
    """A part of the full run. It takes less than two hours on two cores.

    environment: variables of its command.
    """

    tests: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _pytest(*arguments: str) -> tuple[str, ...]:
    return ("make", "pytest", f"ARGS={' '.join(arguments)}")


def _without(paths: Iterable[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


_EXAMPLES = {"PENSTOCK_EXAMPLES": "20000"}
_KILLS = {"PENSTOCK_KILLS": "200", "PENSTOCK_FAULTS": "all"}

PARTS = {
    "checks": Part("style, types, imports, dependencies, JavaScript client", ("make", "checks")),
    "rooms": Part(
        "every room, on both databases",
        _pytest("tests", *_without((*_ALONE, *_RANDOM, *_KILLED))),
        {"PENSTOCK_DATABASES": "all"},
    ),
    "browser": Part("every page in each theme, width and kind of text", _pytest("tests/browser")),
    "clients": Part("all clients of Penstock and Segment", _pytest("tests/sdk", "tests/segment")),
    "kills": Part("200 kills of each store and worker", _pytest(*_KILLED), _KILLS),
    "faults": Part("disks, databases and networks that fail", _pytest("tests/faults"), _KILLS),
    "fuzz": Part(
        "random requests, files and users",
        _pytest("tests/fuzz", "tests/events/test_times.py"),
        {"PENSTOCK_FUZZ_EXAMPLES": "500"},
    ),
    "visitors": Part(
        "10,000 random visitor funnels", _pytest(_RANDOM[0], "-k", "visitor"), _EXAMPLES
    ),
    "attempts": Part(
        "10,000 random attempt funnels", _pytest(_RANDOM[0], "-k", "attempt"), _EXAMPLES
    ),
    "lists": Part(
        "4,000 random funnels with lists, trends and stored outcomes",
        _pytest(*_RANDOM[1:]),
        _EXAMPLES,
    ),
    "http": Part("all that uses events, on a ClickHouse server", ("make", "test-http")),
    "shards": Part("all that reads events, on two shards", ("make", "test-shards")),
    "replicas": Part("faults of two shards with two replicas each", ("make", "test-replicas")),
    "install": Part("each documented way to install", ("make", "test-install")),
    "engines": Part("the script for pages in Firefox and WebKit", ("make", "browsers")),
}


@dataclass(frozen=True)
class Row:
    """Figures of the last run of a part, as text. The commit ends with `+` if files had changed."""

    date: str = _NEVER
    commit: str = ""
    passed: str = ""
    failed: str = ""
    skipped: str = ""
    counted: str = ""
    minutes: str = ""
    cpu_s: str = ""

    def cells(self) -> tuple[str, ...]:
        return (
            *(self.date, self.commit, self.passed, self.failed),
            *(self.skipped, self.counted, self.minutes, self.cpu_s),
        )


def main(arguments: Sequence[str]) -> int:
    """Run parts, or check their age. Returns the exit code."""
    if "--age" in arguments:
        print("".join(f"warning: {line}\n" for line in old_parts(read_page())), end="")
        return 0
    if unknown := [name for name in arguments if name not in PARTS]:
        print(f"There is no part {unknown[0]}. Parts: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    failed = [name for name in arguments or missing_parts(read_page()) if not run_part(name)]
    if failed:
        print(f"Failed: {', '.join(failed)}. Run one again with: make test-full PART={failed[0]}")
    return bool(failed)


def missing_parts(rows: Mapping[str, Row]) -> list[str]:
    """Return the parts that have not passed on this commit."""
    commit = current_commit()
    return [
        name
        for name, row in rows.items()
        if commit.endswith("+") or (row.commit, row.failed) != (commit, "0")
    ]


def run_part(name: str) -> bool:
    """Run a part and note it on the page. Returns whether it passed."""
    part, commit = PARTS[name], current_commit()
    print(f"== {name}: {part.tests}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        own = {"PENSTOCK_RESULT": str(file), **part.environment}
        before_s, started_s = _children_cpu_s(), time.monotonic()
        code = subprocess.run(part.command, cwd=ROOT, env={**os.environ, **own}).returncode
        result = json.loads(file.read_text()) if file.exists() else {}
    failed = result.get("failed", 0) or int(code != 0)
    row = Row(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        commit=commit,
        passed=f"{result.get('passed', 0):,}",
        failed=f"{failed:,}",
        skipped=f"{result.get('skipped', 0):,}",
        counted=", ".join(f"{n:,} {what}" for what, n in result.get("counts", {}).items()),
        minutes=f"{(time.monotonic() - started_s) / 60:.0f}",
        # The kernel forgets programs that nobody waited for; the tests measure them while they run.
        cpu_s=f"{max(_children_cpu_s() - before_s, result.get('cpu_s', 0)):,.0f}",
    )
    write_page({**read_page(), name: row})
    return not failed


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_page(text: str | None = None) -> dict[str, Row]:
    """Read the row of each part. text: the page, instead of its file."""
    rows = dict.fromkeys(PARTS, Row())
    for line in (PAGE.read_text() if text is None else text).splitlines():
        part, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if (name := part.strip("`")) in PARTS and len(cells) == len(_COLUMNS) + 1:
            rows[name] = Row(*cells[1:])
    return rows


def write_page(rows: Mapping[str, Row]) -> None:
    """Replace the table of the page."""
    head = ("part", "tests", *_COLUMNS)
    lines = [head, tuple("---" for _ in head)]
    lines += [(f"`{name}`", PARTS[name].tests, *row.cells()) for name, row in rows.items()]
    before, _, _ = PAGE.read_text().partition("| part |")
    PAGE.write_text(before + "".join(f"| {' | '.join(cells)} |\n" for cells in lines))


def current_commit() -> str:
    """Return the short hash of this commit, with `+` if files other than the page have changed."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE}")
    return (_git("rev-parse", "--short=8", "HEAD") or "unknown") + ("+" if changed else "")


def commits_since(commit: str) -> int | None:
    """Return the number of commits since the given one; None without its history."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        return None
    count = _git("rev-list", "--count", f"{commit.rstrip('+')}..HEAD")
    return int(count) if count else None


def old_parts(
    rows: Mapping[str, Row], since: Callable[[str], int | None] = commits_since
) -> Iterable[str]:
    """Yield a line for each part that never ran or whose last run is old."""
    for name, row in rows.items():
        if row.date == _NEVER:
            yield f"make test-full PART={name} has never run"
        elif (count := since(row.commit)) is not None and count > MAX_AGE:
            yield f"make test-full PART={name} ran {count} commits ago, more than {MAX_AGE}"


def _git(*arguments: str) -> str:
    """Return what a git command prints, or an empty text if it fails."""
    run = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
