"""`/t.js` in Firefox and WebKit: the core journey of a page, through a host that fails.

`make browsers` installs both and runs this.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.browser.other_browsers import Firefox, WebKit
from tests.http_server import Answering
from tests.segment.faulty_host import FAULTS, FaultyHost
from tests.serving import Served
from tests.stopped_store import rows_of
from tests.waiting import PATIENCE_S, eventually

Tab = Firefox | WebKit

ROUNDS, PER_ROUND = 6, 20
STORED = """
SELECT toString(kind), name, toUnixTimestamp64Milli(occurred_at),
    JSONExtractString(properties, 'checkoutId'), JSONExtractInt(properties, 'n')
FROM events ORDER BY occurred_at, event_id
"""
IS_LOADED = "return typeof window.penstock?.track === 'function'"
TRACK = """
const checkout = penstock.attempt("checkout", { property: "checkoutId", sequence: "n" });
for (const name of arguments[0]) checkout.track(name);
return checkout.id;
"""
WAITING = """
penstock.wake();
return Object.keys(localStorage).filter((key) => key.startsWith("penstock.event.")).length;
"""


@pytest.fixture(params=[Firefox, WebKit])
def tab(request: pytest.FixtureRequest) -> Iterator[Tab]:
    browser: type[Tab] = request.param
    if "PENSTOCK_CLIENT_EVENTS" not in os.environ or browser.program() is None:
        pytest.skip(f"make browsers runs it in {browser.__name__}")
    opened = browser()
    yield opened
    opened.close()


@pytest.fixture
def service(starts_service: None, tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data") as running:
        yield running


@pytest.fixture
def host(service: Served) -> Iterator[FaultyHost]:
    faulty = FaultyHost(lambda: service.url, faults=[])
    yield faulty
    faulty.close()


class Shop:
    """A site whose pages have the script."""

    def __init__(self, host_url: str, website_id: str) -> None:
        tag = f'<script async src="{host_url}/t.js" data-website="{website_id}"></script>'
        body = f"<html><head><title>Shop</title>{tag}</head></html>".encode()

        class Handler(Answering, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, "text/html", body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def open(self, tab: Tab, path: str) -> None:
        tab.goto(self._url + path)
        eventually(lambda: tab.run(IS_LOADED))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.slow("waits until events of earlier pages are half a minute old")
def test_a_journey_is_stored_once_in_order_and_with_its_times(
    tab: Tab, service: Served, host: FaultyHost
) -> None:
    _, website_id = service.first_account()
    shop = Shop(host.url, website_id)
    shop.open(tab, "/start")
    paths, names, attempts = ["/start"], list[str](), set[str]()
    created_s = dict[str, float]()
    for number in range(ROUNDS):
        host.fail(*FAULTS)
        tab.run("history.pushState({}, '', arguments[0])", f"/{number}")
        new = [f"step-{number}-{index}" for index in range(PER_ROUND)]
        created_s |= dict.fromkeys(new, time.time())
        attempts.add(tab.run(TRACK, new))
        names += new
        paths.append(f"/{number}")
        if number % 2:  # the page goes before its events have arrived
            shop.open(tab, f"/again-{number}")
            paths.append(f"/again-{number}")
    tab.run("penstock.identify('u-1', { plan: 'pro' })")
    eventually(lambda: tab.run(WAITING) == 0, 2 * PATIENCE_S)
    shop.close()
    person = {"websiteId": website_id, "userId": "u-1"}
    assert service.client.get("/api/personal-data", params=person).status_code == 200
    service.stop()
    rows = rows_of(service.data, STORED)
    assert Counter(row[1] for row in rows if row[0] == "pageview") == Counter(paths)
    events = [row[1:] for row in rows if row[0] == "event"]
    assert Counter(event[0] for event in events) == Counter(names)
    assert {event[2] for event in events} == attempts
    assert len(attempts) == 1
    numbers = {name: number for name, _, _, number in events}
    in_order = [numbers[name] for name in names]
    assert in_order == sorted(set(in_order))
    late_s = max(abs(int(at_ms) / 1000 - created_s[name]) for name, at_ms, _, _ in events)
    print(
        f"{tab.version}: {len(paths)} page views and {len(names)} events made and stored once, "
        f"{len(host.statuses)} posts, {host.failed} of them failed; times within {late_s:.2f} s"
    )
    assert late_s < 3
