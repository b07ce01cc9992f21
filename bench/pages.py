"""How long each page of the dashboard takes on the demo data, what it asks of the stores, and how much it sends.

Times and sizes are those of HTTP requests to a `penstock demo` on loopback, with the cookie of its account. Then that service stops, and a
process opens its data folder and asks the same application for the same pages, without anything that runs beside requests, to count what
the stores are asked. A part that htmx loads when its page has come is a request of its own. What modules of a page ask of the API, and the
files of a page, which browsers keep, are not here.
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
class Asked:
    """One request. name: of the page, and the kind of its part."""

    name: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Counted:
    """How often each store was asked."""

    metadb: int = 0
    warehouse: int = 0


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """Of each request: the median and the slowest of its times in ms, statements to each store, and its bytes as they were sent."""
    with tempfile.TemporaryDirectory() as name:
        demo = Demo(Path(name))
        try:
            with httpx.Client(base_url=demo.url, timeout=60) as client:
                asked = list(_requests(client, demo))
                told = [_measured(client, one, rounds) for one in asked]
            demo.service.stop()
        finally:
            demo.close()
        counted = _counted(demo.service.data, asked)
    return {
        "rounds": rounds,
        "pages": [{"name": one.name, **times, **counts} for one, times, counts in zip(asked, told, counted, strict=True)],
    }


def _requests(client: httpx.Client, demo: Demo) -> Iterator[Asked]:
    """Each page, and after it the parts that it loads."""
    for page in PAGES:
        cookie = {"Cookie": f"service_session={demo.session}"} if page.signed_in else {}
        asked = Asked(page.name, page.path(demo.ids), cookie)
        yield asked
        parts = Parts()
        parts.feed(_answer(client, asked).text)
        for part, path in parts.found:
            yield Asked(f"{page.name}: {part.partition('-')[0]}", path, {**cookie, "HX-Request": "true", "HX-Target": part})


class Parts(HTMLParser):
    """The elements of a page that load themselves. found: the ID and the address of each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if told.get("hx-trigger") == "load":
            self.found.append((told["id"] or "", told["hx-get"] or ""))


def _measured(client: httpx.Client, asked: Asked, rounds: int) -> dict[str, float]:
    _answer(client, asked)  # warm
    times_ms, size = [], 0
    for _ in range(rounds):
        began_s = time.perf_counter()
        size = _answer(client, asked).num_bytes_downloaded
        times_ms.append((time.perf_counter() - began_s) * 1000)
    return {"median_ms": round(median(times_ms), 1), "slowest_ms": round(max(times_ms), 1), "bytes": size}


def _answer(client: httpx.Client, asked: Asked) -> httpx.Response:
    return client.get(asked.path, headers=asked.headers).raise_for_status()


def _counted(data: Path, asked: Sequence[Asked]) -> list[dict[str, int]]:
    """By a process of its own, for the embedded engine takes one data folder in each."""
    given = json.dumps([asdict(one) for one in asked])
    done = subprocess.run(
        [sys.executable, "-m", "bench.pages", str(data)], input=given, capture_output=True, text=True, check=True, env=environment()
    )
    counts: list[dict[str, int]] = json.loads(done.stdout)
    return counts


async def count(data: Path, requests: Sequence[Asked]) -> list[Counted]:
    """What the stores are asked for each of the requests when the service has answered it before: a report that holds is used again."""
    settings, now = Settings(data=data), Counted()

    class CountingWarehouse(Warehouse):
        def query(
            self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
        ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            now.warehouse += 1
            return super().query(sql, parameters, settings)

    services = build_services(settings, warehouse=CountingWarehouse(data=data, url=None))

    @event.listens_for(services.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        now.metadb += not statement.startswith("BEGIN")

    counts = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(build_routes(services)), base_url="http://127.0.0.1") as client:
        for one in requests:
            for _ in range(2):
                now.metadb = now.warehouse = 0
                (await client.get(one.path, headers=one.headers)).raise_for_status()
            counts.append(Counted(now.metadb, now.warehouse))
    services.warehouse.close()
    services.database.close()
    return counts


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asked = [Asked(**one) for one in json.load(sys.stdin)]
        print(json.dumps([asdict(one) for one in asyncio.run(count(Path(sys.argv[1]), asked))]))
    else:
        print(json.dumps(run(), indent=2))
