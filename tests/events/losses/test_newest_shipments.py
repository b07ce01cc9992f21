"""A metadata database that has lost its newest entries ships nothing under used numbers."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert

from penstock.events.losses import store
from penstock.events.losses.model import NewestShipments
from penstock.metadb.database import Database
from penstock.metadb.tables import merges, outbox, shipments
from tests.serving import Served, penstock

FUNNEL = {
    "name": "Checkout",
    "steps": [{"type": "Event", "value": "e"}, {"type": "Event", "value": "paid"}],
}


def post(service: Served, website_id: str, name: str) -> dict[str, Any]:
    event = {"websiteId": website_id, "userId": name, "event": "e", "eventId": name}
    answer = service.client.post("/api/v1/events", json=event)
    assert answer.status_code == 202, answer.text
    service.await_shipped()
    return answer.json()


def put_back(copy: Path, data: Path) -> None:
    """As a truncated write-ahead log leaves the database: what was committed last is gone."""
    for file in data.glob("penstock.sqlite3*"):
        file.unlink()
    shutil.copy(copy, data / "penstock.sqlite3")


def said(*arguments: str) -> tuple[int, str]:
    run = penstock(*arguments)
    text = " ".join((run.stdout + run.stderr).split())
    assert "Traceback" not in text
    return run.returncode, text


@pytest.mark.usefixtures("starts_service")
def test_lost_entries_are_refused_until_they_are_accepted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        key, website_id = service.first_account()
        funnel = service.client.post("/api/funnels", json=FUNNEL).json()["id"]
        for number in range(3):
            post(service, website_id, f"before-{number}")
        assert service.stop() == 0
    shutil.copy(data / "penstock.sqlite3", tmp_path / "earlier.sqlite3")
    with Served(data, key=key) as service:
        for number in range(3):
            post(service, website_id, f"lost-{number}")
        service.kill()
    put_back(tmp_path / "earlier.sqlite3", data)

    code, text = said("serve", "--port", "0", "--data", str(data))
    assert code == 1
    assert "the metadata database has lost its newest entries" in text
    assert "penstock verify --accept-loss" in text
    code, text = said("verify", "--data", str(data))
    assert (code, "PROBLEM newest shipments" in text) == (1, True)
    code, text = said("verify", "--accept-loss", "--data", str(data))
    assert (code, "accepted as lost" in text) == (0, True), text

    with Served(data, key=key) as service:
        for number in range(5):  # under numbers that were used, they would be taken for repeats
            post(service, website_id, f"after-{number}")
        results = service.client.get(f"/api/funnels/{funnel}/results").json()
        assert results["aggregate"]["entered"] == 3 + 3 + 5, results
        assert results["coverage"]["complete"] is False
        assert "loss" in results["coverage"]["noteCodes"]
        assert service.stop() == 0
    assert said("verify", "--data", str(data))[0] == 0


@pytest.mark.usefixtures("starts_service")
def test_an_older_event_store_is_named_and_its_events_are_a_loss(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        key, website_id = service.first_account()
        post(service, website_id, "before")
        assert service.stop() == 0
    shutil.copytree(data / "warehouse", tmp_path / "older", symlinks=True)
    with Served(data, key=key) as service:
        for number in range(3):
            post(service, website_id, f"lost-{number}")
        assert service.stop() == 0
    shutil.rmtree(data / "warehouse")
    shutil.copytree(tmp_path / "older", data / "warehouse", symlinks=True)
    code, text = said("verify", "--data", str(data))
    assert (code, "the event store is an older copy" in text) == (1, True)
    with Served(data) as service:
        assert "event_store_behind" in service.output()
        assert service.client.get("/health/ready").json()["missingEvents"]["events"] == 3


def test_later_shipments_merges_and_traits_have_higher_numbers(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        with database.write() as db:
            store.continue_above(db, NewestShipments(700, 0, False, merge=900, traits=800))
        with database.write() as db:
            values = {"target": "events", "cut_at": 0}
            number = db.execute(insert(shipments).values(values).returning(shipments.c.id)).scalar()
            columns = ("scope_id", "absorbed_id", "kept_id", "user_id")
            merge = {**dict.fromkeys(columns, "x"), "merged_at": 0}
            merge_id = db.execute(insert(merges).values(merge).returning(merges.c.id)).scalar()
            row = {"target": "visitor_traits", "lines": "", "put_at": 0}
            bundle = db.execute(insert(outbox).values(row).returning(outbox.c.id)).scalar()
            for table in (shipments, merges, outbox):
                db.execute(delete(table))
        assert (number, merge_id, bundle) == (701, 901, 801)
        with database.read() as db:
            assert store.newest_shipment(db) == (700, False)
