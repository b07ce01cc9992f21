"""The sender's own event ID is stored beside Penstock's, on every route."""

from typing import Any

from tests.cases import cases
from tests.events.conftest import Stored, imported
from tests.tenant import Tenant


@cases(
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
    own = f"visitor of {route} {fields}"
    body = {"websiteId": workspace.website_id, "visitorId": own, **fields}
    assert workspace.client.post(route, json=body).status_code == 202
    [event] = [event for event in stored() if event["visitor_id"] == own]
    assert event.get("client_event_id") == client_event_id
    recents = workspace.client.get("/api/events/recent").json()["data"]
    [recent] = [recent for recent in recents if recent["visitorId"] == own]
    assert recent["clientEventId"] == client_event_id


def test_the_ids_of_import_lines_are_stored(workspace: Tenant, stored: Stored) -> None:
    lines: list[tuple[dict[str, Any], str | None]] = [
        ({"dedupeKey": "d-1"}, "d-1"),
        ({"type": "transaction", "transactionId": "t-1"}, "t-1"),
        ({"type": "transaction", "transactionId": "t-1", "dedupeKey": "d-2"}, "d-2"),
        ({}, None),
    ]
    line = {"type": "event", "name": "e", "visitorId": "v"}
    content = [
        line | fields | {"timestamp": f"2024-05-01T10:00:0{second}Z"}
        for second, (fields, _) in enumerate(lines)
    ]
    assert imported(workspace, content)["accepted"] == len(lines)
    assert [event.get("client_event_id") for event in stored()] == [own for _, own in lines]
