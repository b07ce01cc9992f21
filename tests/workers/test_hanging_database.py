"""A metadata DB that hangs: it accepts connections and never answers. And one that holds a lock."""

import sqlite3
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from penstock.base.errors import StoreUnavailable
from penstock.metadb.database import Database
from tests.events.conftest import finished, ndjson
from tests.proxy import FaultyProxy
from tests.waiting import PATIENCE_S, eventually

TIMEOUT_S = 1.5
MAX_S = PATIENCE_S
"""A request without a limit would never end."""


@pytest.fixture
def proxy(postgres_server) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(f"{postgres_server.folder}/.s.PGSQL.5432")
    yield proxy
    proxy.close()


@pytest.fixture
def metadb_url(postgres_url, proxy) -> str:
    name = make_url(postgres_url).database
    return f"postgresql://penstock@127.0.0.1:{proxy.port}/{name}"


@pytest.fixture
def timeout_s(request) -> float:
    return getattr(request, "param", TIMEOUT_S)


@pytest.fixture
def settings(settings, timeout_s):
    return settings.with_limits(database_timeout_s=timeout_s)


def bounded(request):
    began_s = time.monotonic()
    answer = request()
    assert time.monotonic() - began_s < MAX_S
    return answer


@pytest.mark.slow("waits for time-outs of the database")
def test_the_service_answers_while_the_database_hangs_and_recovers(
    server, client, workspace, services, clock, proxy
):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    eventually(lambda: client.post("/api/v1/events", json=event).status_code == 202)
    eventually(lambda: server.get("/health/ready").status_code == 200)

    proxy.freeze()
    for request in (
        lambda: client.post("/api/v1/events", json=event),
        lambda: workspace.browser.get("/api/auth/session"),
        lambda: workspace.browser.post("/api/settings/websites", json={"name": "B", "kind": "web"}),
    ):
        answer = bounded(request)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"
    assert server.get("/health/live").status_code == 200
    answer = bounded(lambda: server.get("/health/ready"))
    assert (answer.status_code, answer.json()["database"]) == (503, False)

    proxy.thaw()
    eventually(lambda: server.get("/health/ready").status_code == 200)
    eventually(lambda: client.post("/api/v1/events", json=event).status_code == 202)
    assert services.shipper.wait_until_shipped(PATIENCE_S)
    workers = eventually(
        lambda: (
            (all_workers := server.get("/health/ready").json()["workers"])
            and not any(worker["failingSince"] for worker in all_workers)
            and all_workers
        )
    )
    assert {"intake", "shipper", "imports", "deletions"} <= {worker["name"] for worker in workers}


@pytest.mark.parametrize("timeout_s", [5 * PATIENCE_S], indirect=True)
def test_health_checks_do_not_wait_for_requests_that_hang(server, workspace, proxy):
    proxy.freeze()
    requests = [
        threading.Thread(target=lambda: workspace.browser.get("/api/auth/session"), daemon=True)
        for _ in range(60)
    ]
    for request in requests:
        request.start()
    answer = bounded(lambda: server.get("/health/ready"))
    assert (answer.status_code, answer.json()["database"]) == (503, False)
    proxy.thaw()
    for request in requests:
        request.join(PATIENCE_S)


def test_a_statement_that_hangs_ends_within_its_limit_and_closes_its_connection(metadb_url, proxy):
    database = Database(metadb_url, timeout_s=TIMEOUT_S)
    assert database.answers()
    proxy.freeze()
    began_s = time.monotonic()
    assert not database.answers()
    assert time.monotonic() - began_s < MAX_S
    proxy.thaw()
    assert database.answers()
    database.close()


@pytest.mark.slow("waits for time-outs of the database")
def test_an_import_continues_when_the_database_answers_again(client, workspace, proxy):
    lines = [
        {"type": "event", "name": "e", "timestamp": 1_588_327_200_000 + n, "visitorId": "v"}
        for n in range(10_000)
    ]
    answer = client.post(
        "/api/imports",
        params={"websiteId": workspace.website_id},
        content=ndjson(lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    proxy.freeze()
    time.sleep(4 * TIMEOUT_S)
    proxy.thaw()
    job = finished(client, answer.json()["id"])
    assert (job["state"], job["error"], job["linesRead"]) == ("done", None, len(lines))
    assert job["accepted"] + job["duplicates"] == len(lines)


def test_a_locked_table_delays_posts_for_a_bounded_time(client, workspace, postgres_url):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    eventually(lambda: client.post("/api/v1/events", json=event).status_code == 202)
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE visitors IN ACCESS EXCLUSIVE MODE")
        answer = bounded(lambda: client.post("/api/v1/events", json=event))
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        other.rollback()
    eventually(lambda: client.post("/api/v1/events", json=event).status_code == 202)


def test_a_locked_sqlite_file_delays_a_write_for_a_bounded_time(tmp_path, sqlite_url):
    database = Database(sqlite_url, timeout_s=0.3)
    with sqlite3.connect(tmp_path / "penstock.sqlite3", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        began_s = time.monotonic()
        with pytest.raises(StoreUnavailable), database.write():
            pass
        assert time.monotonic() - began_s < MAX_S
        other.execute("ROLLBACK")
    with database.write():
        pass
    database.close()
