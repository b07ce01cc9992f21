"""The sender's own event ID is stored beside Penstock's, on every route."""

from typing import Any

import pytest

from tests.events.conftest import Stored, finished, ndjson
from tests.tenant import Tenant


@pytest.mark.parametrize(
    ("route", "fields", "client_event_id"),
    [
        ("/api/v1/events", {"event": "e", "eventId": "order-77"}, "order-77"),
        ("/api/v1/transactions", {"event": "e", "eventId": "e-1"}, "e-1"),
        ("/api/v1/transactions", {"event": "e", "eventId": "e-1", "transactionId": "t-1"}, "t-1"),
        ("/api/track", {"type": "event", "name": "e", "dedupeKey": "d-1"}, "d-1"),
        ("/api/v1/events", {"event": "e"}, None),
    ],
)
def test_the_id_is_stored_as_sent(
    workspace: Tenant,
    stored: Stored,
    route: str,
    fields: dict[str, Any],
    client_event_id: str | None,
) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": "v", **fields}
    assert workspace.client.post(route, json=body).status_code == 202
    [event] = stored()
    assert event.get("client_event_id") == client_event_id
    [recent] = workspace.client.get("/api/events/recent").json()["data"]
    assert recent["clientEventId"] == client_event_id


@pytest.mark.parametrize(
    ("fields", "client_event_id"),
    [
        ({"dedupeKey": "d-1"}, "d-1"),
        ({"type": "transaction", "transactionId": "t-1"}, "t-1"),
        ({"type": "transaction", "transactionId": "t-1", "dedupeKey": "d-1"}, "d-1"),
        ({}, None),
    ],
)
def test_the_id_of_an_import_line_is_stored(
    workspace: Tenant, stored: Stored, fields: dict[str, Any], client_event_id: str | None
) -> None:
    line = {"type": "event", "name": "e", "visitorId": "v", "timestamp": "2024-05-01T10:00:00Z"}
    job = workspace.client.post(
        "/api/imports",
        params={"websiteId": workspace.website_id},
        content=ndjson([line | fields]),
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    assert finished(workspace.client, job["id"])["accepted"] == 1
    [event] = stored()
    assert event.get("client_event_id") == client_event_id
