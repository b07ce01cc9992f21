"""Response time, store queries and size of each dashboard page on the demo data.

Times and sizes are of HTTP requests to a `penstock demo` on loopback, with a session. Then the
service stops, and a process opens its data folder and requests the same pages from the same
application, without background workers, to count statements. A part that htmx loads is a request of
its own. API calls of page modules and static files, which browsers cache, are not measured.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from sqlalchemy import event
from tests.browser.demo import Demo
from tests.browser.pages import PAGES
from tests.serving import environment

from penstock.app import build_routes, build_services
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

ROUNDS = 10


@dataclass(frozen=True)
class PageRequest:
    """One request. name: the page, and the kind of its part."""

    name: str
    path: str
    headers: Mapping[str, str]


@dataclass
class StatementCounts:
    """Number of statements to each store."""

    metadb: int = 0
    warehouse: int = 0


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """For each request: median and slowest time in ms, statements to each store, bytes sent."""
    with tempfile.TemporaryDirectory() as name:
        demo = Demo(Path(name))
        try:
            with httpx.Client(base_url=demo.url, timeout=60) as client:
                requests = list(_page_requests(client, demo))
                timings = [_measure(client, request, rounds) for request in requests]
            demo.service.stop()
        finally:
            demo.close()
        counts = _count_in_process(demo.service.data, requests)
    return {
        "rounds": rounds,
        "pages": [
            {"name": request.name, **times, **statements}
            for request, times, statements in zip(requests, timings, counts, strict=True)
        ],
    }


def _page_requests(client: httpx.Client, demo: Demo) -> Iterator[PageRequest]:
    """Each page, followed by the parts that it loads."""
    for page in PAGES:
        cookie = {"Cookie": f"service_session={demo.session}"} if page.signed_in else {}
        request = PageRequest(page.name, page.path(demo.ids), cookie)
        yield request
        parts = Parts()
        parts.feed(_get(client, request).text)
        for part, path in parts.loads:
            yield PageRequest(
                f"{page.name}: {part.partition('-')[0]}",
                path,
                {**cookie, "HX-Request": "true", "HX-Target": part},
            )


class Parts(HTMLParser):
    """The elements of a page that load themselves. loads: ID and URL of each."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("hx-trigger") == "load":
            self.loads.append((attributes["id"] or "", attributes["hx-get"] or ""))


def _measure(client: httpx.Client, request: PageRequest, rounds: int) -> dict[str, float]:
    _get(client, request)  # warm
    times_ms, size = [], 0
    for _ in range(rounds):
        start_s = time.perf_counter()
        size = _get(client, request).num_bytes_downloaded
        times_ms.append((time.perf_counter() - start_s) * 1000)
    return {
        "median_ms": round(median(times_ms), 1),
        "slowest_ms": round(max(times_ms), 1),
        "bytes": size,
    }


def _get(client: httpx.Client, request: PageRequest) -> httpx.Response:
    return client.get(request.path, headers=request.headers).raise_for_status()


def _count_in_process(data: Path, requests: Sequence[PageRequest]) -> list[dict[str, int]]:
    """`count` in a new process: the embedded engine opens one data folder per process."""
    content = json.dumps([asdict(request) for request in requests])
    process = subprocess.run(
        [sys.executable, "-m", "bench.pages", str(data)],
        input=content,
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    counts: list[dict[str, int]] = json.loads(process.stdout)
    return counts


async def count(data: Path, requests: Sequence[PageRequest]) -> list[StatementCounts]:
    """Statements of each request when it is repeated: cached reports are used again."""
    settings, now = Settings(data=data), StatementCounts()

    class CountingWarehouse(Warehouse):
        def query(
            self,
            sql: str,
            parameters: Mapping[str, Any] | None = None,
            settings: Mapping[str, Any] | None = None,
        ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            now.warehouse += 1
            return super().query(sql, parameters, settings)

    services = build_services(settings, warehouse=CountingWarehouse(data=data, url=None))

    @event.listens_for(services.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        now.metadb += not statement.startswith("BEGIN")

    counts = []
    app: Any = build_routes(services)  # litestar has types of its own for the same interface
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
    ) as client:
        for request in requests:
            for _ in range(2):
                now.metadb = now.warehouse = 0
                (await client.get(request.path, headers=request.headers)).raise_for_status()
            counts.append(StatementCounts(now.metadb, now.warehouse))
    services.warehouse.close()
    services.database.close()
    return counts


if __name__ == "__main__":
    if len(sys.argv) > 1:
        requests = [PageRequest(**fields) for fields in json.load(sys.stdin)]
        counts = asyncio.run(count(Path(sys.argv[1]), requests))
        print(json.dumps([asdict(statements) for statements in counts]))
    else:
        print(json.dumps(run(), indent=2))
