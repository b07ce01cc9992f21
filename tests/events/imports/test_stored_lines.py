"""Lines of type `stored`, which `penstock import --from penstock` sends."""

import json
from typing import Any

from tests.tenant import Tenant
from tests.waiting import eventually

LINE: dict[str, Any] = {
    "type": "stored",
    "kind": "event",
    "name": "paid",
    "source": "browser",
    "eventId": "evt_1",
    "clientEventId": "order-1",
    "occurredAt": "2026-05-01T10:00:00.000Z",
    "statedAt": "2026-05-01T10:00:05.000Z",
    "receivedAt": "2026-05-01T10:00:01.000Z",
    "visitorId": "v-1",
    "userId": "ada",
    "country": "DE",
    "properties": {"amount": 5},
}


def imported(workspace: Tenant, *lines: dict[str, Any]) -> dict[str, Any]:
    content = "".join(json.dumps(line) + "\n" for line in lines)
    path = "/api/imports"
    job = workspace.client.post(
        path,
        params={"websiteId": workspace.website_id},
        content=content,
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    path = f"/api/imports/{job['id']}"
    eventually(lambda: workspace.client.get(path).json()["state"] not in ("queued", "running"))
    return {**workspace.client.get(path).json(), "path": path}


def faulty_fields(workspace: Tenant, **changes: Any) -> list[str]:
    job = imported(workspace, {**LINE, **changes})
    [reject] = workspace.client.get(f"{job['path']}/rejects").json()["data"]
    return [fault["field"] for fault in reject["errors"]]


def test_an_event_keeps_its_source_times_and_ids_and_links_nobody(workspace: Tenant) -> None:
    assert imported(workspace, LINE)["accepted"] == 1
    query = {"websiteId": workspace.website_id, "day": "2026-05-01", "format": "ndjson"}
    [row] = workspace.client.get("/api/exports/day", params=query).text.splitlines()
    stored = json.loads(row)
    assert (stored["source"], stored["client_event_id"]) == ("browser", "order-1")
    assert (stored["occurred_at"], stored["stated_at"], stored["received_at"]) == (
        LINE["occurredAt"],
        LINE["statedAt"],
        LINE["receivedAt"],
    )
    assert (stored["visitor_id"], stored["user_id"]) == ("v-1", "ada")
    query = {"websiteId": workspace.website_id, "format": "ndjson"}
    assert workspace.client.get("/api/exports/identities", params=query).text == ""


def test_a_repeat_is_recognised_by_the_earlier_id(workspace: Tenant) -> None:
    imported(workspace, LINE)
    again = imported(workspace, LINE, {**LINE, "eventId": "evt_2"})
    assert (again["accepted"], again["duplicates"]) == (1, 1)


def test_a_line_that_is_not_valid_names_its_fields(workspace: Tenant) -> None:
    assert faulty_fields(workspace, source="nobody", kind="x") == ["kind", "source"]
    assert faulty_fields(workspace, visitorId="") == ["visitorId"]
    assert faulty_fields(workspace, occurredAt="2199-01-01T00:00:00Z") == ["occurredAt"]
    assert faulty_fields(workspace, scalars={}) == ["scalars"]
