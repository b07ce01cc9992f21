"""A metadata database that cannot grow: 503 and the readiness say that the disk is full."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import event

from penstock.app import Services
from penstock.base.errors import StoreUnavailable
from penstock.metadb.database import Database
from penstock.warehouse.errors import translate_errors, unavailable_error
from tests.tenant import Tenant


@contextmanager
def full(database: Database) -> Iterator[None]:
    """Let SQLite refuse to use more pages than it has."""

    def refuse_growth(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(database.engine, "checkout", refuse_growth)
    with database.write() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    yield
    event.remove(database.engine, "checkout", refuse_growth)
    with database.write() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")


@pytest.mark.usefixtures("warehouse")
def test_a_full_disk_is_named_until_it_has_space_again(
    services: Services, server: TestClient[Litestar], workspace: Tenant
) -> None:
    fields = {"websiteId": workspace.website_id, "visitorId": "v", "event": "opened"}
    events = [{**fields, "properties": {"text": f"{n}" * 500}} for n in range(200)]
    with services.shipper.paused(), full(services.database):  # Shipping would free pages.
        codes = list[int]()
        while 503 not in codes and len(codes) < 20:
            answer = workspace.client.post("/api/v1/events/batch", json={"events": events})
            codes.append(answer.status_code)
        assert "The disk of this service is full" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 0
        ready = server.get("/health/ready")
        assert ready.status_code == 503
        assert ready.json()["reason"].startswith("The disk is full")
    assert server.get("/health/ready").status_code == 200
    answer = workspace.client.post("/api/v1/events/batch", json={"events": events})
    assert answer.json()["accepted"] == len(events)


@pytest.mark.parametrize(
    "reason", ["Code: 243. DB::Exception: Cannot reserve 1.00 MiB", "No space left on device"]
)
def test_a_full_disk_of_the_event_store_is_named(reason: str) -> None:
    from clickhouse_connect.driver.exceptions import DatabaseError

    with pytest.raises(StoreUnavailable, match="The disk of the event store is full"):
        raise unavailable_error(reason)
    with (
        pytest.raises(StoreUnavailable, match="The disk of the event store is full"),
        translate_errors(),
    ):
        raise DatabaseError(reason)
