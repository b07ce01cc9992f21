"""Records and events that tests create over HTTP, with any client that may create them."""

import json
from collections.abc import Iterable
from typing import Any

import httpx

from tests.answers import body_of
from tests.waiting import eventually

Json = dict[str, Any]


def create(client: httpx.Client, records: str, body: Json) -> Json:
    """Create a record and return it. records: path of the records, such as `/api/goals`."""
    record: Json = body_of(client.post(records, json=body), 201)
    return record


def new_website(client: httpx.Client, name: str = "Shop", kind: str = "web", **more: Any) -> str:
    """Create a website or app and return its ID."""
    body = {"name": name, "kind": kind, **more}
    website_id: str = create(client, "/api/settings/websites", body)["id"]
    return website_id


def new_key(client: httpx.Client, **more: Any) -> str:
    """Create an API key and return its secret. The client must have a session."""
    key: str = create(client, "/api/settings/api-keys", {"name": "tests", **more})["key"]
    return key


def recent_names(client: httpx.Client, website_id: str | None = None) -> set[str]:
    """Return the names of the most recent events, of all websites by default."""
    query = {"websiteId": website_id} if website_id else {}
    recent = client.get("/api/events/recent", params=query).json()["data"]
    return {event["name"] for event in recent}


def ndjson(lines: Iterable[Json]) -> bytes:
    """Return a file with an object on each line."""
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def send_file(
    client: httpx.Client,
    content: bytes,
    media_type: str,
    query: dict[str, str],
    state: str | None = None,
) -> str:
    """Send a file to import and return the ID of its import. state: waits until it is reached."""
    headers = {"Content-Type": media_type}
    answer = client.post("/api/imports", params=query, content=content, headers=headers)
    assert answer.is_success, answer.text
    import_id: str = answer.json()["id"]
    path = f"/api/imports/{import_id}"
    eventually(lambda: state in (None, client.get(path).json()["state"]))
    return import_id


def event_steps(*names: str) -> list[Json]:
    """Return a step for each name of an event."""
    return [{"type": "Event", "value": name} for name in names]


def track(client: httpx.Client, website_id: str, **item: Any) -> Json:
    """Track an item as the client script does, by default an event."""
    body = {"websiteId": website_id, "type": "event", **item}
    receipt: Json = body_of(client.post("/api/track", json=body), 202)
    return receipt


def send_events(client: httpx.Client, events: Iterable[Json], key: str | None = None) -> None:
    """Send events as a backend does; all are accepted. key: if the client sends none."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"events": list(events)}
    answer = client.post("/api/v1/events/batch", json=body, headers=headers)
    assert answer.json()["accepted"] == len(body["events"]), answer.text
