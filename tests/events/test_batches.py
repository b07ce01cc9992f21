"""POST /api/v1/events/batch: each item is accepted or rejected by itself."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest

from penstock.base.event_limits import MAX_BATCH_EVENTS
from penstock.events import routes
from penstock.events.answers import batch_json
from penstock.events.batch import ItemResult
from penstock.events.intake import MAX_WAITING
from tests.answers import body_of, faults
from tests.cases import cases
from tests.events.conftest import Stored
from tests.tenant import Tenant


def post(workspace: Tenant, events: Any, **headers: str) -> httpx.Response:
    return workspace.client.post("/api/v1/events/batch", json={"events": events}, headers=headers)


def test_an_invalid_item_never_loses_a_valid_one(
    workspace: Tenant, other_workspace: Tenant, site: str, stored: Stored
) -> None:
    good = {"websiteId": site, "visitorId": "v", "event": "good", "eventId": "1"}
    events = [
        good,
        {"websiteId": site, "event": "bad", "sessionId": "s"},
        good | {"websiteId": other_workspace.website_id},
        5,
        good,
    ]
    document = body_of(post(workspace, events), 202)
    event_id = document["results"][0]["eventId"]
    messages = [
        error.pop("message") for result in document["results"] for error in result["errors"]
    ]
    assert all(messages)
    assert document == {
        "accepted": 1,
        "duplicates": 1,
        "rejected": 3,
        "results": [
            {"index": 0, "status": "accepted", "eventId": event_id, "visitorId": "v", "errors": []},
            {
                "index": 1, "status": "rejected", "eventId": None, "visitorId": None,
                "errors": [
                    {"field": "sessionId", "code": "session_id_not_accepted"},
                    {"field": "visitorId", "code": "identity_required"},
                    {"field": "userId", "code": "identity_required"},
                ],
            },
            {
                "index": 2, "status": "rejected", "eventId": None, "visitorId": None,
                "errors": [{"field": "websiteId", "code": "website_not_owned"}],
            },
            {
                "index": 3, "status": "rejected", "eventId": None, "visitorId": None,
                "errors": [{"field": "", "code": "wrong_type"}],
            },
            {
                "index": 4, "status": "duplicate", "eventId": event_id, "visitorId": "v",
                "errors": [],
            },
        ],
    }  # fmt: skip
    assert [row["event_id"] for row in stored()] == [event_id]


def test_a_thousand_events_are_stored_in_their_order(
    workspace: Tenant, site: str, stored: Stored
) -> None:
    events = [
        {
            "websiteId": site,
            "visitorId": f"v{n % 10}",
            "event": f"e{n}",
            "timestamp": 1_700_000_000_000 + n,
        }
        for n in range(1000)
    ]
    document = post(workspace, events).json()
    assert (document["accepted"], document["duplicates"], document["rejected"]) == (1000, 0, 0)
    assert [result["index"] for result in document["results"]] == list(range(1000))
    assert [(row["name"], row["event_id"]) for row in stored()] == [
        (f"e{n}", result["eventId"]) for n, result in enumerate(document["results"])
    ]


@cases(
    ("events", "code"),
    [([], "too_few"), ([{}] * 1001, "too_many"), ({}, "wrong_type"), (None, "wrong_type")],
)
def test_a_body_that_is_no_batch_is_rejected_as_a_whole(
    workspace: Tenant, events: Any, code: str
) -> None:
    answer = post(workspace, events)
    assert faults(answer) == {"events": code}


@cases(
    ("body", "expected"),
    [
        ({}, {"events": "required"}),
        ({"events": [{}], "extra": 1}, {"extra": "unknown_field"}),
        ([], {"body": "wrong_type"}),
        (7, {"body": "wrong_type"}),
    ],
)
def test_the_envelope_is_checked(workspace: Tenant, body: Any, expected: dict[str, str]) -> None:
    answer = workspace.client.post("/api/v1/events/batch", json=body)
    assert faults(answer) == expected


def test_a_batch_of_invalid_items_stores_nothing(workspace: Tenant, stored: Stored) -> None:
    answer = post(workspace, [{}, None, [], "x"])
    assert (answer.status_code, answer.json()["rejected"]) == (202, 4)
    assert stored() == []


def test_the_single_route_and_the_batch_share_their_ids(workspace: Tenant, site: str) -> None:
    event = {"websiteId": site, "visitorId": "v", "event": "e", "eventId": "shared"}
    first = workspace.client.post("/api/v1/events", json=event).json()
    [result] = post(workspace, [event]).json()["results"]
    assert result == {
        "index": 0,
        "status": "duplicate",
        "eventId": first["eventId"],
        "visitorId": "v",
        "errors": [],
    }


def test_legacy_contract_holds_for_every_item(workspace: Tenant, site: str) -> None:
    items = [
        {"websiteId": site, "visitorId": "customer", "event": "e"},
        {"websiteId": site, "visitorId": "a", "userId": "b", "event": "e"},
    ]
    answer = post(workspace, items, **{"x-service-identity-contract": "legacy-user-id"})
    first, second = answer.json()["results"]
    assert first["visitorId"] != "customer"
    assert second["errors"][0]["code"] == "identity_ambiguous"
    assert answer.headers["deprecation"] == "@1767225600"


def test_a_batch_needs_a_key(workspace: Tenant, site: str) -> None:
    answer = workspace.browser.post(
        "/api/v1/events/batch",
        json={"events": [{"websiteId": site, "visitorId": "v", "event": "e"}]},
    )
    assert answer.status_code == 401


def test_the_intake_has_room_for_the_largest_batch() -> None:
    assert MAX_BATCH_EVENTS <= MAX_WAITING // 2


@pytest.mark.parametrize("path", ["/api/track", "/api/v1/events/batch"])
def test_a_small_body_of_many_items_does_not_hold_the_event_loop(
    workspace: Tenant, site: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loop = list[bool]()

    def recorded(results: Sequence[ItemResult]) -> bytes:
        with suppress(RuntimeError):
            on_loop.append(asyncio.get_running_loop().is_running())
        return batch_json(results)

    monkeypatch.setattr(routes, "batch_json", recorded)
    website = {} if "v1" in path else {"websiteId": site}
    answer = workspace.client.post(path, json={**website, "events": [{}] * 1000})
    assert (answer.status_code, len(answer.json()["results"])) == (202, 1000)
    assert on_loop == []
