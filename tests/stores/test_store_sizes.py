"""Owners can see what both stores take on disk, by kind."""

import pytest

from penstock.app import Services
from penstock.stores import Stores, store_sizes
from tests.tenant import Tenant


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def test_the_sizes_of_both_stores_grow_with_events(workspace: Tenant, services: Services) -> None:
    stores = Stores(services.database, services.warehouse)
    before = store_sizes(stores)
    for batch in range(3):
        numbers = [f"{batch}-{n}" for n in range(1000)]
        events = [
            {"type": "event", "name": "e", "visitorId": f"v-{number}", "dedupeKey": number}
            for number in numbers
        ]
        body = {"websiteId": workspace.website_id, "events": events}
        assert workspace.client.post("/api/track", json=body).json()["accepted"] == 1000
    assert services.shipper.wait_until_shipped(10)
    after = store_sizes(stores)
    for kind in ("visitors", "dedupe keys"):
        assert after.database[kind] > before.database.get(kind, 0) + 100_000, kind
    assert after.database["other"] > 0
    assert after.warehouse["events"] > before.warehouse.get("events", 0)
