"""Runs a service under mixed load for a while: `python -m tests.faults.soak [MINUTES]`.

After an import of 300,000 events, posts, reports, imports and clicks run concurrently, and two
backups are taken. A line every half minute shows memory, open descriptors, and the 99th percentile
of each kind of request. The final lines show how fast memory and descriptors grew in the second
half, and the result of verifying both stores.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple

import httpx

from tests import scratch
from tests.faults.workload import STEPS, Workload
from tests.processes import new_python
from tests.serving import Served, penstock

POSTERS = 4
BATCH = 50
FIRST_EVENTS, _FILE_LINES = 300_000, 50_000
_PAUSE_S = {"post": 1.0, "report": 2.0, "click": 0.1, "import": 20.0}
_PERIOD_MS = 5 * 60 * 1000
_SAMPLE_S = 30.0
_SETTLE_S = 30.0
_COLUMNS = ("post", "report", "import", "click")


class Latencies:
    """Durations of requests in seconds since the last `take`, by kind of request."""

    def __init__(self) -> None:
        self._lock, self._seconds = Lock(), defaultdict[str, list[float]](list)
        self.total: dict[str, int] = dict.fromkeys(_COLUMNS, 0)
        self.failed = 0

    def measure(self, kind: str, request: Callable[[], httpx.Response]) -> None:
        began_s = time.perf_counter()
        answer = request()
        with self._lock:
            self._seconds[kind].append(time.perf_counter() - began_s)
            self.total[kind] += 1
            self.failed += answer.status_code >= 400

    def take(self) -> dict[str, float]:
        """Return the 99th percentile for each kind, in milliseconds, and start over."""
        with self._lock:
            seconds, self._seconds = self._seconds, defaultdict(list)
        return {
            kind: sorted(values)[int(len(values) * 0.99)] * 1000 for kind, values in seconds.items()
        }


def soak(minutes: float) -> None:
    scratch.use_memory()
    data = Path(tempfile.mkdtemp(prefix="penstock-soak-")) / "data"
    stop, latencies = Event(), Latencies()
    with Served(data, start=new_python) as service:
        workload = Workload(service)
        _fill(service, workload.website_id)
        headers = {"Authorization": f"Bearer {workload.key}"}

        def client() -> httpx.Client:
            return httpx.Client(base_url=service.url, headers=headers, timeout=60)

        def post(number: int) -> None:
            batches = 0
            with client() as own:
                while not stop.is_set():
                    events = _batch(workload.website_id, f"{number}-{batches}")
                    latencies.measure(
                        "post",
                        lambda: own.post("/api/v1/events/batch", json={"events": events}),  # noqa: B023
                    )
                    batches += 1
                    stop.wait(_PAUSE_S["post"])

        def report() -> None:
            path = f"/api/funnels/{workload.funnel_id}/results"
            with client() as own:
                while not stop.is_set():
                    # The period has a fixed length, because the cost of a report grows with the
                    # store.
                    now_ms = time.time_ns() // 1_000_000
                    period = {"startAt": now_ms - _PERIOD_MS, "endAt": now_ms}
                    latencies.measure("report", lambda: own.get(path, params=period))  # noqa: B023
                    stop.wait(_PAUSE_S["report"])

        def click() -> None:
            with client() as own:
                while not stop.is_set():
                    latencies.measure("click", lambda: own.get("/l/faults"))
                    stop.wait(_PAUSE_S["click"])

        def import_files() -> None:
            number = 0
            with client() as own:
                while not stop.is_set():
                    body = _file(f"import-{number}")
                    query = {"websiteId": workload.website_id}
                    kind = {"Content-Type": "application/x-ndjson"}
                    latencies.measure(
                        "import",
                        lambda: own.post("/api/imports", params=query, content=body, headers=kind),  # noqa: B023
                    )
                    number += 1
                    stop.wait(_PAUSE_S["import"])

        def back_up() -> None:
            """Take two backups, the second one based on the first."""
            base: list[str] = []
            for number in (1, 2):
                if stop.wait(minutes * 60 / 3):
                    return
                folder = str(data.parent / f"backup-{number}")
                run = penstock("backup", folder, *base, "--data", str(data))
                print(run.stdout.strip() or run.stderr.strip(), flush=True)
                base = ["--base", folder]

        posters = (lambda n=n: post(n) for n in range(POSTERS))
        targets = [*posters, report, click, import_files, back_up]
        threads = [Thread(target=target) for target in targets]
        for thread in threads:
            thread.start()
        samples = _show(service, latencies, minutes)
        stop.set()
        for thread in threads:
            thread.join()
        time.sleep(_SETTLE_S)
        print(f"memory {_SETTLE_S:.0f} s later: {_memory_mb(service):,} MB")
        assert service.stop() == 0
    total = ", ".join(f"{count:,} {kind}s" for kind, count in latencies.total.items())
    print(f"{total}; {latencies.failed:,} failed")
    print(_growth(samples[len(samples) // 2 :]))
    verified = penstock("verify", "--data", str(data))
    print(verified.stdout)
    sys.exit(verified.returncode or latencies.failed > 0)


def _fill(service: Served, website_id: str) -> None:
    """Import events, to fill the caches that grow with the stores."""
    query, kind = {"websiteId": website_id}, {"Content-Type": "application/x-ndjson"}
    for number in range(FIRST_EVENTS // _FILE_LINES):
        file = service.client.post(
            "/api/imports",
            params=query,
            content=_file(f"first-{number}", _FILE_LINES),
            headers=kind,
        ).json()
        while service.client.get(f"/api/imports/{file['id']}").json()["state"] != "done":
            time.sleep(0.2)


class Sample(NamedTuple):
    """Resources of the process at one moment. memory: resident memory in MB."""

    minute: float
    memory: int
    descriptors: int


def _growth(samples: Sequence[Sample]) -> str:
    """Format the growth of memory and descriptors: the slope of a line through all samples."""
    if len(samples) < 3:
        return "too short to tell a growth"
    minutes = [sample.minute for sample in samples]
    memory, descriptors = (
        statistics.linear_regression(minutes, values).slope
        for values in zip(*(sample[1:] for sample in samples), strict=True)
    )
    return (
        f"from minute {minutes[0]:.0f} to {minutes[-1]:.0f}: "
        f"{memory:+.2f} MB and {descriptors:+.2f} descriptors per minute"
    )


def _show(service: Served, latencies: Latencies, minutes: float) -> list[Sample]:
    names = "".join(f"{kind + ' p99 ms':>15}" for kind in _COLUMNS)
    print(f"{'minute':>7}{'memory MB':>11}{'descriptors':>13}{names}", flush=True)
    process = Path(f"/proc/{service.process.pid}")
    samples, began_s = list[Sample](), time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < minutes * 60:
        time.sleep(min(_SAMPLE_S, minutes * 60 - elapsed_s))
        memory = _memory_mb(service)
        p99 = latencies.take()
        cells = "".join(f"{p99[kind]:>15.0f}" if kind in p99 else f"{'':>15}" for kind in _COLUMNS)
        minute = (time.monotonic() - began_s) / 60
        descriptors = len(list((process / "fd").iterdir()))
        print(f"{minute:>7.1f}{memory:>11,}{descriptors:>13}{cells}", flush=True)
        samples.append(Sample(minute, memory, descriptors))
    return samples


def _memory_mb(service: Served) -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    [resident] = [line for line in status if line.startswith("VmRSS:")]
    return int(resident.split()[1]) // 1024


def _batch(website_id: str, name: str) -> list[dict[str, object]]:
    return [
        {
            "websiteId": website_id,
            "event": random.choice(STEPS),
            "userId": f"user-{random.randrange(10_000)}",
            "eventId": f"{name}-{number}",
            "properties": {"checkoutId": f"c-{random.randrange(5_000)}", "page": number},
        }
        for number in range(BATCH)
    ]


def _file(name: str, lines: int = 2_000) -> bytes:
    texts = (
        {
            "type": "event",
            "name": random.choice(STEPS),
            "timestamp": f"2025-02-{1 + number % 28:02}T10:00:00Z",
            "userId": f"user-{random.randrange(10_000)}",
            "dedupeKey": f"{name}-{number}",
            "properties": {"checkoutId": f"i-{random.randrange(5_000)}"},
        }
        for number in range(lines)
    )
    return "\n".join(map(json.dumps, texts)).encode()


if __name__ == "__main__":
    soak(float(sys.argv[1]) if len(sys.argv) > 1 else 30)
