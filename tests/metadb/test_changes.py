"""The connection on which a node learns what others changed: it may hang or break."""

import time
from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import make_url

from penstock.base.errors import StoreUnavailable
from penstock.metadb import changes
from penstock.metadb.database import Database
from tests.postgres import PostgresServer
from tests.proxy import FaultyProxy
from tests.waiting import PATIENCE_S


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(f"{postgres_server.folder}/.s.PGSQL.5432")
    yield proxy
    proxy.close()


def announce(database: Database, topic: str) -> None:
    with database.write() as db:
        database.changes.announce(db, topic)


def test_a_listener_notices_a_server_that_hangs_and_then_takes_all_as_changed(
    proxy: FaultyProxy, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make_url(postgres_url).database
    other = Database(postgres_url)
    database = Database(f"postgresql://penstock@127.0.0.1:{proxy.port}/{name}", timeout_s=0.4)
    learnt: list[str] = []
    for topic in ("websites", "links"):
        database.changes.subscribe(topic, partial(learnt.append, topic))
    database.changes.receive()
    assert learnt == ["websites", "links"]
    announce(other, "links")
    announce(other, "unknown")
    database.changes.receive()
    assert learnt == ["websites", "links", "links"]

    monkeypatch.setattr(changes, "_PROBE_S", 0)
    proxy.freeze()
    announce(other, "websites")
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable):
        database.changes.receive()
    assert time.monotonic() - began_s < PATIENCE_S
    proxy.thaw()
    learnt.clear()
    database.changes.receive()
    assert learnt == ["websites", "links"]
    database.close()
    other.close()


def test_with_sqlite_nothing_is_announced(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    assert not database.changes.is_shared
    announce(database, "websites")
    database.close()
