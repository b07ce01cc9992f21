"""`make bench`: measures all or some parts, and writes results and plots after each part.

make bench                            everything, into bench/results.md and bench/plots
make bench ARGS="funnel intake"       some parts; other results stay
make bench ARGS="--small"             a trial with little data, into a temporary folder
make bench BASE=v0.1.0                compared with this older commit, for targets that are ratios
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import (
    disk,
    export,
    funnel,
    imports,
    intake,
    latency,
    markdown,
    outcomes,
    pages,
    plots,
    redirects,
    refresh,
    results,
    shapes,
    start,
)
from bench.model import Bench, Table
from bench.service import ROOT

PARTS: dict[str, Callable[[Bench], list[Table]]] = {
    "funnel": funnel.run,
    "shapes": shapes.run,
    "outcomes": outcomes.run,
    "latency": latency.run,
    "refresh": refresh.run,
    "intake": intake.run,
    "imports": imports.run,
    "redirects": redirects.run,
    "start": start.run,
    "disk": disk.run,
    "export": export.run,
    "pages": pages.run,
}
_LATEST_START_S = 36 * 60
_PACKAGES = ("chdb-core", "litestar", "uvicorn", "duckdb", "sqlalchemy")
_PROGRAMS = (["postgres", "--version"], ["nginx", "-v"], ["wrk", "-v"])


def main() -> None:
    arguments = _arguments()
    output = arguments.output or (
        Path(tempfile.mkdtemp(prefix="penstock-bench-try-")) if arguments.small else ROOT / "bench"
    )
    output.mkdir(exist_ok=True)
    has_failed = False
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.folder) as folder,
        _checkout(arguments.base) as base,
    ):
        bench = Bench(Path(folder), arguments.small, base)
        for name in arguments.parts or PARTS:
            result = _measure(name, bench, arguments.base)
            has_failed |= bool(result.failures)
            _write(result, output)
    bench.progress(f"done: {output / 'results.md'}")
    sys.exit(1 if has_failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Penstock.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--small", action="store_true", help="a try with little data")
    parser.add_argument("--base", help="an older commit to measure beside this one")
    parser.add_argument("--output", type=Path, help="folder of results.md and plots")
    parser.add_argument("--folder", type=Path, help="where to put data; needs 25 GB for everything")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"unknown parts {unknown}; there are {', '.join(PARTS)}")
    return arguments


def _measure(name: str, bench: Bench, base: str | None) -> results.PartResult:
    """Measure one part. Failures are reported, and other parts still run."""
    bench.progress(f"== {name}")
    bench.failures.clear()
    start_s, tables = time.monotonic(), list[Table]()
    try:
        if start_s - bench.started_s > _LATEST_START_S:
            raise TimeoutError(f"left out: it would begin after {_LATEST_START_S} seconds")
        tables = PARTS[name](bench)
    except Exception as error:
        traceback.print_exc()
        bench.failures.append(f"{type(error).__name__}: {error}"[:1000])
    took_s = time.monotonic() - start_s
    bench.progress(f"== {name}: {took_s:.0f} seconds, {len(bench.failures)} failures")
    return results.PartResult(
        name,
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        _git("rev-parse", "--short=10", "HEAD"),
        base and _git("rev-parse", "--short=10", base),
        _machine(),
        took_s,
        bench.small,
        tables,
        list(bench.failures),
    )


def _write(result: results.PartResult, output: Path) -> None:
    """Replace a part's last result."""
    known = results.load(output) | {result.part: result}
    in_order = {name: known[name] for name in PARTS if name in known}
    results.save(output, in_order)
    (output / "results.md").write_text(markdown.page(in_order.values()), "utf-8")
    plots.draw_all(in_order.values(), output / "plots")


@contextmanager
def _checkout(commit: str | None) -> Iterator[Path | None]:
    """Check out a commit in a temporary worktree. Yields its folder, or None if there is no
    commit.
    """
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="penstock-base-") as folder:
        path = Path(folder, "base")
        _git("worktree", "add", "--detach", str(path), commit)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _machine() -> dict[str, str]:
    """Return facts about the machine and the programs, by name."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{memory_gb:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "load before": f"{os.getloadavg()[2]:.1f} (15 minutes)",
        "Python": f"{platform.python_version()}, {packages}",
        "programs": ", ".join(filter(None, map(_version, _PROGRAMS))),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(command: list[str]) -> str | None:
    """Return the first line that a program prints about its version."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    run = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    return (run.stdout + run.stderr).splitlines()[0].partition(" [")[0].strip()


if __name__ == "__main__":
    main()
