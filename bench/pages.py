"""Measures the response time, store queries and size of each dashboard page, with the demo's data.

Times and sizes come from HTTP requests to a `penstock demo` on loopback, with a session. Then the
service stops, and another process opens its data folder and requests the same pages without
background workers, to count statements. Each part that htmx loads is a separate request; a whole
page is the page's own request plus the requests for its missing parts. API calls from page modules
are not measured, nor are static files, which browsers cache.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from sqlalchemy import event
from tests.browser.demo import Demo
from tests.browser.pages import PAGES
from tests.serving import environment

from bench.model import Bench, Cell, Column, Table
from bench.timing import in_new_process
from penstock.app import build_routes, build_services
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

ROUNDS = 10


@dataclass(frozen=True)
class PageRequest:
    """One request. name: the page and the kind of part.

    with_parts: whether to also request the parts that the page loads.
    """

    name: str
    path: str
    headers: Mapping[str, str]
    with_parts: bool = False


@dataclass
class StatementCounts:
    """Number of statements sent to each store."""

    metadb: int = 0
    warehouse: int = 0


def run(bench: Bench) -> list[Table]:
    rounds = bench.rounds(ROUNDS)
    with tempfile.TemporaryDirectory() as name:
        bench.progress("a demo")
        demo = Demo(Path(name))
        try:
            with httpx.Client(base_url=demo.url, timeout=60) as client:
                bench.progress("times")
                requests = list(_page_requests(client, demo))
                timings = [_measure(client, request, rounds) for request in requests]
            demo.service.stop()
        finally:
            demo.close()
        bench.progress("statements")
        counts = in_new_process(count_statements, demo.service.data, requests)
    rows: list[list[Cell]] = [
        [request.name, *timing[:2], statements.metadb, statements.warehouse, timing[2]]
        for request, timing, statements in zip(requests, timings, counts, strict=True)
    ]
    columns = (
        Column("page"),
        Column("median, ms", 1),
        Column("slowest, ms", 1),
        Column("metadata DB statements", 0),
        Column("warehouse statements", 0),
        Column("KB", 1),
    )
    notes = (
        f"Demo data, warm, {rounds} requests each. Parts loaded with htmx have rows of their own; "
        "a whole page is the page with the parts that it does not have yet, one after another. "
        "Statements are those of a repeated request, which may use cached reports. KB: compressed, "
        "without cached files."
    )
    return [Table("Pages of the dashboard", columns, rows, notes)]


def _page_requests(client: httpx.Client, demo: Demo) -> Iterator[PageRequest]:
    """Yield each page, followed by the parts that it loads."""
    for page in PAGES:
        cookie = {"Cookie": f"service_session={demo.session}"} if page.signed_in else {}
        request = PageRequest(page.name, page.path(demo.ids), cookie)
        yield request
        parts = _parts_of(request, _get(client, request).text)
        yield from parts
        if parts:
            yield replace(request, name=f"{page.name}: whole page", with_parts=True)


def _parts_of(page: PageRequest, text: str) -> list[PageRequest]:
    """Return the requests for the parts that a page loads."""
    parts = Parts()
    parts.feed(text)
    return [
        PageRequest(
            f"{page.name}: {part.partition('-')[0]}",
            path,
            {**page.headers, "HX-Request": "true", "HX-Target": part},
        )
        for part, path in parts.loads
    ]


class Parts(HTMLParser):
    """Finds a page's elements that load separately. loads: ID and URL of each."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("hx-trigger") == "load":
            self.loads.append((attributes["id"] or "", attributes["hx-get"] or ""))


def _measure(client: httpx.Client, request: PageRequest, rounds: int) -> tuple[float, float, float]:
    """Measure a request. Returns the median and slowest time in ms, and the size in KB."""
    _load(client, request)  # warm-up
    times_s, sizes = zip(*(_load(client, request) for _ in range(rounds)), strict=True)
    return median(times_s) * 1000, max(times_s) * 1000, sizes[-1] / 1000


def _load(client: httpx.Client, request: PageRequest) -> tuple[float, int]:
    """Send a request, and the requests for its parts if required. Returns the seconds and bytes."""
    start_s = time.perf_counter()
    answer = _get(client, request)
    took_s, size = time.perf_counter() - start_s, answer.num_bytes_downloaded
    for part in _parts_of(request, answer.text) if request.with_parts else []:
        part_s, part_size = _load(client, part)
        took_s, size = took_s + part_s, size + part_size
    return took_s, size


def _get(client: httpx.Client, request: PageRequest) -> httpx.Response:
    return client.get(request.path, headers=request.headers).raise_for_status()


def count_statements(data: Path, requests: Sequence[PageRequest]) -> list[StatementCounts]:
    """Count the statements of each request when it is repeated and can use cached reports."""
    # Ignore the machine's `PENSTOCK_*` variables.
    os.environ.clear()
    os.environ.update(environment())
    return asyncio.run(_count(data, requests))


async def _count(data: Path, requests: Sequence[PageRequest]) -> list[StatementCounts]:
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

        def query_at_once(
            self,
            sql: str,
            parameters: Mapping[str, Any] | None = None,
            settings: Mapping[str, Any] | None = None,
        ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            now.warehouse += 1
            return super().query_at_once(sql, parameters, settings)

    services = build_services(settings, warehouse=CountingWarehouse(data=data, url=None))

    @event.listens_for(services.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        now.metadb += not statement.startswith("BEGIN")

    counts = []
    app: Any = build_routes(services)  # litestar has its own types for this interface
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
    ) as client:
        for request in requests:
            for _ in range(2):
                now.metadb = now.warehouse = 0
                answer = await client.get(request.path, headers=request.headers)
                parts = _parts_of(request, answer.raise_for_status().text)
                for part in parts if request.with_parts else []:
                    (await client.get(part.path, headers=part.headers)).raise_for_status()
            counts.append(StatementCounts(now.metadb, now.warehouse))
    services.warehouse.close()
    services.database.close()
    return counts
