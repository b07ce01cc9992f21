"""Measures what attacks cost other tenants: `python -m tests.faults.attacks [NAME ...]`.

Two workspaces attack a separate service, each with two requests at a time, while a third one posts
an event every 20 ms. A line per attack shows the processor time, the peak of resident memory, and
the third workspace's posts, with their factor to a run without an attack. Figures are medians of
the runs. The command fails if the 99th percentile of these posts is above 250 ms, or the service
takes more memory than documented.

Environment variables: `BODIES=8` requests of each attack, `RUNS=3` runs, `MINUTES=10` to send the
seven newest attacks all at once for that long, on a service with at most 2 GB of memory.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from tests import scratch
from tests.faults.attack_kinds import ATTACKS, SEVEN, Attack, Attacker
from tests.faults.neighbour import client_of, cpu_s, memory_mb, post_event, repeated, sign_up
from tests.processes import new_python
from tests.serving import Served, query_warehouse

MAX_P99_MS = 250
MAX_MEMORY_MB = 2_048
SMALL_MACHINE = {
    "PENSTOCK_QUERY_MEMORY_BYTES": "536870912",
    "PENSTOCK_QUERIES_AT_ONCE": "2",
    "PENSTOCK_QUERIES_PER_WORKSPACE": "1",
    "PENSTOCK_BODIES_BYTES": "33554432",
}
"""Settings that docs/operating.md recommends for 2 GB."""

_AT_ONCE = 4
_PAUSE_S = 0.02
_SETTLE_S = 2.0
_MEMORY_GROUP = Path("/sys/fs/cgroup/memory/penstock-attacks")


class Figures(NamedTuple):
    """Figures of one run. p99_ms, slowest_ms: posts of the workspace that does not attack."""

    cpu_s: float
    peak_mb: float
    p99_ms: float
    slowest_ms: float


class Scene(NamedTuple):
    """A service under attack. post: posts an event of another workspace, to its website."""

    service: Served
    attackers: Sequence[Attacker]
    website_id: str
    post: Callable[[], None]


@contextmanager
def scene(folder: Path, **settings: str) -> Iterator[Scene]:
    """Start a service with two attackers and another workspace."""
    with ExitStack() as stack:
        own = {"PENSTOCK_SIGNUP_OPEN": "true", **settings}
        service = stack.enter_context(Served(folder / "data", start=new_python, **own))
        key, neighbour_id = service.first_account()

        def connect(address: str, key: str | None) -> httpx.Client:
            return stack.enter_context(client_of(service, address, key))

        attackers = []
        for number in (1, 2):
            own_key, website_id = sign_up(service, f"attacker-{number}")
            address = f"203.0.113.{number}"
            attackers.append(
                Attacker(connect(address, own_key), connect(address, None), website_id)
            )
        neighbour = connect("198.51.100.1", key)
        yield Scene(service, attackers, neighbour_id, lambda: post_event(neighbour, neighbour_id))


def measure(attack: Attack | None, bodies: int) -> tuple[Figures, Mapping[str, int]]:
    """Measure one run. attack: None for a run without one. Returns the figures and the outcomes."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-attack-") as folder,
        scene(Path(folder), **SMALL_MACHINE) as (service, attackers, _, post),
        repeated(post, _PAUSE_S) as posts,
    ):
        if attack is not None:
            for attacker in attackers:
                attack.prepare(attacker)
        time.sleep(_SETTLE_S)
        before_s = cpu_s(service)
        posts.clear()
        outcomes = _send(attack, attackers, bodies) if attack else Counter[str]()
        time.sleep(_SETTLE_S)
        figures = _figures(service, posts, before_s)
    return figures, outcomes


def _send(attack: Attack, attackers: Sequence[Attacker], bodies: int) -> Mapping[str, int]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [
            pool.submit(attack.send, attacker)
            for _, attacker in zip(range(bodies), cycle(attackers), strict=False)
        ]
        return Counter(job.result() for job in jobs)


def _figures(service: Served, posts: Sequence[float], before_s: float) -> Figures:
    seconds = sorted(posts)
    return Figures(
        cpu_s=cpu_s(service) - before_s,
        peak_mb=memory_mb(service, "VmHWM"),
        p99_ms=seconds[int(len(seconds) * 0.99)] * 1000,
        slowest_ms=seconds[-1] * 1000,
    )


def compare(names: Sequence[str], bodies: int, runs: int) -> bool:
    """Print a line per attack. Returns whether all are within the limits."""
    print(f"{'':16}{'CPU s':>8}{'peak MB':>9}{'p99 ms':>8}{'slowest':>9}{'factor':>8}  outcomes")
    idle = _median([measure(None, 0)[0] for _ in range(runs)])
    print(_line("no attack", idle, idle), flush=True)
    is_fine = True
    for name in names:
        results = [measure(ATTACKS[name], bodies) for _ in range(runs)]
        figures = _median([figures for figures, _ in results])
        is_fine &= figures.p99_ms <= MAX_P99_MS and figures.peak_mb <= MAX_MEMORY_MB
        print(_line(name, figures, idle), dict(results[-1][1]), flush=True)
    return is_fine


def _median(runs: Sequence[Figures]) -> Figures:
    return Figures(*(median(values) for values in zip(*runs, strict=True)))


def _line(name: str, figures: Figures, idle: Figures) -> str:
    return (
        f"{name:16}{figures.cpu_s:8.2f}{figures.peak_mb:9.0f}{figures.p99_ms:8.0f}"
        f"{figures.slowest_ms:9.0f}{figures.p99_ms / idle.p99_ms:8.1f} "
    )


def withstand(minutes: float) -> bool:
    """Send the seven newest attacks all at once for some minutes. Returns whether the service
    stayed within its limits and stored every acknowledged event of the other workspace.
    """
    outcomes = {name: Counter[str]() for name in SEVEN}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-attack-") as folder,
        # The pool ends last: requests that are still open end with the service.
        ThreadPoolExecutor(2 * len(SEVEN)) as pool,
    ):
        with scene(Path(folder), **SMALL_MACHINE) as (service, attackers, website_id, post):
            _limit_memory(service)
            for name in SEVEN:
                for attacker in attackers:
                    ATTACKS[name].prepare(attacker)
            with repeated(post, _PAUSE_S) as posts:
                time.sleep(5 * _SETTLE_S)
                idle, before = _figures(service, posts, 0), len(posts)
                until_s = time.monotonic() + minutes * 60
                for name in SEVEN:
                    for attacker in attackers:
                        pool.submit(_repeat, ATTACKS[name], attacker, until_s, outcomes[name])
                time.sleep(minutes * 60)
                figures = _figures(service, posts[before:], 0)
                print(_line("no attack", idle, idle))
                print(_line("seven at once", figures, idle))
                for name, counts in outcomes.items():
                    print(f"  {name:14} {dict(counts)}", flush=True)
            is_alive, acknowledged = service.process.poll() is None, len(posts)
            service.await_shipped()
        [by_website] = query_warehouse(
            service.data, "SELECT website_id, uniqExact(event_id) FROM events GROUP BY website_id"
        )
    stored = dict(by_website)[website_id]
    print(f"alive: {is_alive}; acknowledged {acknowledged:,}, stored {stored:,}")
    return (
        is_alive
        and stored >= acknowledged
        and figures.p99_ms <= MAX_P99_MS
        and figures.peak_mb <= MAX_MEMORY_MB
    )


def _repeat(attack: Attack, attacker: Attacker, until_s: float, outcomes: Counter[str]) -> None:
    """Repeat an attack, and count its outcomes."""
    while time.monotonic() < until_s:
        try:
            outcomes[attack.send(attacker)] += 1
        except httpx.HTTPError as error:
            outcomes[type(error).__name__] += 1
            time.sleep(1)


def _limit_memory(service: Served) -> None:
    """Limit the memory of the service, where the kernel and the user's rights allow it."""
    try:
        _MEMORY_GROUP.mkdir(exist_ok=True)
        (_MEMORY_GROUP / "memory.limit_in_bytes").write_text(f"{MAX_MEMORY_MB}M")
        (_MEMORY_GROUP / "cgroup.procs").write_text(str(service.process.pid))
    except OSError:
        print("The kernel does not limit the memory here; the peak is measured.")


def main(names: Sequence[str]) -> int:
    if minutes := float(os.environ.get("MINUTES", "0")):
        # Files in memory would count as memory of the service.
        return int(not withstand(minutes))
    scratch.use_memory()
    bodies, runs = (int(os.environ.get(*pair)) for pair in (("BODIES", "8"), ("RUNS", "3")))
    return int(not compare(names or tuple(ATTACKS), bodies, runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
