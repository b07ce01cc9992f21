"""Lines of type `stored`, which `penstock import --from penstock` sends."""

import json
from typing import Any

import pytest

from penstock.base.clock import parse_time, system_clock
from tests.answers import faults_in, values_of
from tests.events.conftest import finished, upload
from tests.events.imports.conftest import rejects
from tests.records import new_key
from tests.tenant import Tenant

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


def imported(workspace: Tenant, *lines: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Import lines, and wait until the import has ended. headers: replace those of the client."""
    job = upload(workspace, lines, headers=headers).json()
    return finished(workspace.client, job["id"])


def faulty_fields(workspace: Tenant, **changes: Any) -> list[str]:
    job = imported(workspace, {**LINE, **changes})
    [reject] = rejects(workspace.client, job)
    return list(faults_in(reject))


@pytest.mark.usefixtures("warehouse")
def test_an_event_keeps_its_source_times_and_ids_and_links_nobody(workspace: Tenant) -> None:
    assert imported(workspace, LINE)["accepted"] == 1
    query = {"websiteId": workspace.website_id, "day": "2026-05-01", "format": "ndjson"}
    [row] = workspace.client.get("/api/exports/day", params=query).text.splitlines()
    stored = json.loads(row)
    assert (stored["source"], stored["client_event_id"]) == ("browser", "order-1")
    assert values_of(stored, "occurred_at", "stated_at", "received_at") == values_of(
        LINE, "occurredAt", "statedAt", "receivedAt"
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
    assert faulty_fields(workspace, country="x" * 201, link="x" * 201) == ["country", "link"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("event", ""),
        ("event", "x" * 201),
        ("provider", "x" * 201),
        ("screenview", "a\0b"),
        ("pageview", ""),
        ("pageview", "/" + "x" * 2_000),
    ],
)
def test_names_have_the_limits_of_the_kind_of_event(
    workspace: Tenant, kind: str, name: str
) -> None:
    assert faulty_fields(workspace, kind=kind, name=name) == ["name"]


def test_a_page_view_keeps_a_long_path_as_its_name(workspace: Tenant) -> None:
    path = "/" + "x" * 1_999
    assert imported(workspace, {**LINE, "kind": "pageview", "name": path, "path": path})["accepted"]


def test_only_a_key_that_may_manage_sends_stored_events(workspace: Tenant) -> None:
    key = new_key(workspace.browser, scopes=["ingest"])
    forged = {**LINE, "kind": "provider", "source": "provider", "verified": True}
    event = {"type": "event", "name": "e", "timestamp": LINE["occurredAt"], "visitorId": "v"}
    job = imported(workspace, forged, event, Authorization=f"Bearer {key}")
    assert (job["state"], job["accepted"], job["rejected"]) == ("done", 1, 1)
    [reject] = rejects(workspace.client, job)
    [fault] = reject["errors"]
    assert (reject["line"], fault["field"], fault["code"]) == (1, "type", "needs_manage")
    assert "a key with the permission manage" in fault["message"]
    key = new_key(workspace.browser, scopes=["ingest", "manage"])
    assert imported(workspace, forged, Authorization=f"Bearer {key}")["accepted"] == 1


@pytest.mark.usefixtures("warehouse")
def test_the_time_of_receipt_is_never_in_the_future(workspace: Tenant) -> None:
    soon = system_clock() + 120_000
    assert imported(workspace, {**LINE, "receivedAt": soon})["accepted"] == 1
    query = {"websiteId": workspace.website_id, "day": "2026-05-01", "format": "ndjson"}
    [row] = workspace.client.get("/api/exports/day", params=query).text.splitlines()
    assert parse_time(json.loads(row)["received_at"]) < soon
