"""When every connection to the metadata DB is in use for longer than a worker may wait."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from penstock.accounts.keys import service as key_service
from penstock.events import intake
from penstock.links.attribution import service as attribution_service
from penstock.metadb.tables import event_keys, match_keys
from tests.events.conftest import finished, ndjson
from tests.waiting import eventually

PERIODS = (
    (intake, "_FORGET_AFTER_S"),
    (intake, "_FORGET_EVERY_S"),
    (attribution_service, "_TIDY_EVERY_S"),
    (key_service, "_LAST_USE_EVERY_S"),
)


@pytest.fixture
def metadb_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def settings(settings, monkeypatch):
    for module, name in PERIODS:
        monkeypatch.setattr(module, name, 0.05)
    return settings.model_copy(update={"dedupe_days": 100})


@pytest.fixture
def exhausted_pool(services) -> Callable[[], AbstractContextManager[None]]:
    """Holds every connection of the service's pool; others wait 0.2 seconds for one."""
    pool: Any = services.database.engine.pool
    own_timeout_s = pool._timeout

    @contextmanager
    def hold() -> Iterator[None]:
        with ExitStack() as connections:
            connections.callback(setattr, pool, "_timeout", own_timeout_s)
            pool._timeout = 0.2
            for _ in range(pool.size() + pool._max_overflow):
                connections.enter_context(eventually(lambda: connect(services.database.engine)))
            yield

    return hold


def connect(engine):
    try:
        return engine.connect()
    except Exception:
        return None


def rows(services, table):
    with services.database.read() as db:
        return db.execute(select(func.count()).select_from(table)).scalar_one()


@pytest.mark.full("waits for time-outs of the pool")
@pytest.mark.slow("waits for time-outs of the pool")
def test_an_import_continues_after_a_pool_timeout(client, workspace, services, exhausted_pool):
    lines = [
        {"type": "event", "name": "e", "timestamp": 1_588_327_200_000 + n, "visitorId": f"v{n}"}
        for n in range(20_000)
    ]
    answer = client.post(
        "/api/imports",
        params={"websiteId": workspace.website_id},
        content=ndjson(lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    with exhausted_pool():
        time.sleep(1)
    job = finished(client, answer.json()["id"])
    assert (job["state"], job["error"], job["linesRead"]) == ("done", None, len(lines))
    assert job["accepted"] + job["duplicates"] == len(lines)


def test_the_service_survives_a_pool_timeout_of_the_last_use_worker(
    client, workspace, exhausted_pool
):
    event = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    assert client.post("/api/v1/events", json=event).status_code == 202
    with exhausted_pool():
        client.post("/api/v1/events", json=event)  # the key is used: there is something to write
        time.sleep(1)
    assert client.post("/api/v1/events", json=event).status_code == 202
    [key] = eventually(
        lambda: [
            key
            for key in workspace.browser.get("/api/settings/api-keys").json()["data"]
            if key["lastUsedAt"]
        ]
    )
    assert key["name"] == "tests"


def test_periodic_cleanup_continues_after_a_pool_timeout(server, services, clock, exhausted_pool):
    with exhausted_pool():
        time.sleep(1)
    clock.advance(days=200)
    with services.database.write() as db:
        db.execute(insert(event_keys).values(key_high=1, key_low=1, number=0, origin=0))
        db.execute(insert(match_keys).values(period=1, key=b"k", expires_at=1))
    eventually(lambda: rows(services, match_keys) == 0)
    eventually(lambda: rows(services, event_keys) == 0)
