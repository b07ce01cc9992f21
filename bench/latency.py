"""Measures the latency of posts while reports run, and of reports while posts arrive.

One service has 10 million step events, and counts a funnel of 20 steps and three breakdowns
directly from them. Single posts arrive at half of the highest rate that the service accepted in a
test just before.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

import httpx

from bench.data import BREAKDOWNS, ENDED_MS, STARTED_MS, counts_of
from bench.funnels import WINDOW_S
from bench.intake import SINGLE, send
from bench.long_funnel import STEPS, service_with_events
from bench.model import Bench, Cell, Column, Plot, Table
from bench.service import Account, Service, create, penstock
from bench.steady import CONNECTIONS, Latencies, post_steadily
from bench.timing import in_new_process, resident_mb

_SAMPLE_S = 0.2
_BUSY_S = 600.0
"""Duration of the load in seconds. It is long enough to show whether memory grows."""


def run(bench: Bench) -> list[Table]:
    data, account = service_with_events(bench)
    quiet_s, busy_s, reports = (2.0, 4.0, 1) if bench.small else (30.0, _BUSY_S, 3)
    with (
        penstock(
            data,
            PENSTOCK_STORED_OUTCOMES="0",
            PENSTOCK_QUERY_TIMEOUT_S="300",
            # At a low rate, some connections are idle, and the sender does not reopen them.
            PENSTOCK_IDLE_TIMEOUT_S=str(2 * _BUSY_S),
        ) as service,
        httpx.Client(
            base_url=service.url, headers={"Authorization": f"Bearer {account.key}"}, timeout=300
        ) as client,
    ):
        reporter = Reporter(client, create(client, "/api/funnels", _funnel())["id"])
        bench.progress("reports alone")
        reporter.report()  # warm-up
        alone_s = [reporter.report() for _ in range(reports)]
        bench.progress("the highest rate of posts")
        send(service.url, account, SINGLE, "warm", 1)
        highest = send(service.url, account, SINGLE, "highest", 1 if bench.small else 5)
        half = highest.rate / 2
        bench.progress(f"posts at {half:,.0f} per second")
        quiet = _posts(service, account, half, quiet_s, "quiet")
        bench.progress(f"posts beside reports, {busy_s:.0f} seconds")
        with sampled_memory(service) as memory, reporter.repeating() as beside_s:
            busy = _posts(service, account, half, busy_s, "busy")
        bench.progress("memory after them")
        time.sleep(2)
        after_mb = resident_mb(service.pid)
    return [
        _posts_table(highest.rate, quiet, busy),
        _reports_table(alone_s, beside_s, half),
        _memory_table(memory, after_mb, busy_s / 60, f"{counts_of(data).step_events:,}"),
    ]


class Reporter:
    """Requests the report of one funnel, each time for a new period."""

    def __init__(self, client: httpx.Client, funnel_id: str) -> None:
        self._client, self._path = client, f"/api/funnels/{funnel_id}/results"
        self._reports = 0

    def report(self) -> float:
        """Request a report. Returns the seconds it took."""
        self._reports += 1
        period = {"startAt": STARTED_MS - self._reports, "endAt": ENDED_MS}
        start_s = time.perf_counter()
        self._client.get(self._path, params=period).raise_for_status()
        return time.perf_counter() - start_s

    @contextmanager
    def repeating(self) -> Iterator[list[float]]:
        """Request reports repeatedly until the context ends. Yields the seconds of each report."""
        seconds = list[float]()

        def repeat(stop: threading.Event) -> None:
            while not stop.is_set():
                seconds.append(self.report())

        with in_background(repeat):
            yield seconds


class Memory(NamedTuple):
    """Memory of a process in MB, sampled during a context."""

    samples: list[float]

    @property
    def thirds(self) -> list[float]:
        """Return the median of each third of the time. If they are similar, memory does not
        grow.
        """
        third = max(1, len(self.samples) // 3)
        return [median(self.samples[at * third : (at + 1) * third]) for at in range(3)]


@contextmanager
def sampled_memory(service: Service) -> Iterator[Memory]:
    memory = Memory([resident_mb(service.pid)])

    def sample(stop: threading.Event) -> None:
        while not stop.wait(_SAMPLE_S):
            memory.samples.append(resident_mb(service.pid))

    with in_background(sample):
        yield memory


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run work in a thread. At the end of the context, stop it and raise its error, if any."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, stop)
        try:
            yield
        finally:
            stop.set()
        working.result()


def _posts(
    service: Service, account: Account, rate: float, seconds: float, prefix: str
) -> Latencies:
    return in_new_process(post_steadily, service.url, account, rate, seconds, prefix)


def _funnel() -> dict[str, object]:
    return {
        "name": "Bench",
        "countingUnit": "attempt",
        "attemptProperty": "attemptId",
        "sequenceProperty": "n",
        "breakdownProperties": list(BREAKDOWNS),
        "conversionWindowSeconds": WINDOW_S,
        "steps": [{"type": "Event", "value": f"step_{k}"} for k in range(1, STEPS + 1)],
    }


def _posts_table(highest: float, quiet: Latencies, busy: Latencies) -> Table:
    rows: list[list[Cell]] = [
        [name, *latencies] for name, latencies in (("alone", quiet), ("beside reports", busy))
    ]
    columns = (
        Column("posts"),
        Column("per s", 0),
        Column("p50, ms", 1),
        Column("p99, ms", 1),
        Column("longest, ms", 1),
        Column("failed", 0),
    )
    notes = (
        f"Single events at half of the highest rate, {highest:,.0f} per second, over {CONNECTIONS} "
        "connections. Latency counts from when a request is due, so it includes waiting for a "
        f"connection. Beside them direct reports run one after another: {STEPS} steps, three "
        "breakdowns."
    )
    plot = Plot(
        "post-latency", "bars", "posts", ("p50, ms", "p99, ms", "longest, ms"), "ms", y_log=True
    )
    return Table("Posts beside reports", columns, rows, notes, (plot,))


def _reports_table(alone_s: list[float], beside_s: list[float], rate: float) -> Table:
    rows: list[list[Cell]] = [
        [name, len(seconds), median(seconds), max(seconds)]
        for name, seconds in (("alone", alone_s), ("beside posts", beside_s))
    ]
    columns = (
        Column("reports"),
        Column("number", 0),
        Column("median, s", 2),
        Column("slowest, s", 2),
    )
    notes = f"Through HTTP, each of another period, so that none is cached. {rate:,.0f} posts/s."
    return Table("Reports beside posts", columns, rows, notes)


def _memory_table(memory: Memory, after_mb: float, minutes: float, events: str) -> Table:
    row: list[Cell] = [memory.samples[0], *memory.thirds, max(memory.samples), after_mb]
    columns = tuple(
        Column(f"{name}, MB", 0)
        for name in ("before", "first third", "second third", "last third", "peak", "after")
    )
    notes = (
        f"Memory of the service during {minutes:.0f} minutes of both, over {events} step events: "
        "medians of each third."
    )
    return Table("Memory beside both", columns, [row], notes)
