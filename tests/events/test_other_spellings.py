"""What senders in dynamic languages mean by their bodies, on every route."""

import json
from typing import Any

import httpx
import pytest

from tests.answers import body_of, faults
from tests.cases import cases
from tests.events.conftest import Stored
from tests.tenant import Tenant, visitor

SECONDS, MICROSECONDS = 1_700_000_000, 1_700_000_000_000_000
ROUTES = (
    "/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions", "/api/track", "import",
)  # fmt: skip


@pytest.fixture
def send(workspace: Tenant, run_import: Any) -> Any:
    """Sends an item by a route; returns its status and the faults by field."""

    def send(route: str, **fields: Any) -> tuple[str, dict[str, str]]:
        item = {"visitorId": "v", "timestamp": 1_700_000_000_000, **fields}
        if route == "import":
            job = run_import([{"type": "event", "name": "e", **item}])
            rejects = workspace.client.get(f"/api/imports/{job['id']}/rejects").json()["data"]
            errors = [error for each in rejects for error in each["errors"]]
            return ("rejected" if errors else "accepted"), {
                error["field"]: error["code"] for error in errors
            }
        names = {"type": "event", "name": "e"} if route == "/api/track" else {"event": "e"}
        item = {"websiteId": workspace.website_id, **names, **item}
        body = {"events": [item]} if route.endswith("/batch") else item
        answer = workspace.client.post(route, json=body)
        if answer.status_code == 422:
            return "rejected", faults(answer)
        result = answer.json()
        result = result["results"][0] if "results" in result else result
        return result["status"], {each["field"]: each["code"] for each in result.get("errors", ())}

    return send


UNLIKE_MILLISECONDS = [
    (SECONDS, "seconds"), (str(SECONDS), "seconds"), (float(SECONDS), "seconds"),
    (10**11 - 1, "seconds"), (MICROSECONDS, "microseconds"), (10**14, "microseconds"),
]  # fmt: skip


@cases("route", ROUTES)
def test_times_in_seconds_or_microseconds_are_refused(
    send: Any, stored: Stored, route: str
) -> None:
    for timestamp, unit in UNLIKE_MILLISECONDS:
        assert send(route, timestamp=timestamp) == ("rejected", {"timestamp": f"looks_like_{unit}"})
    before = len(stored())
    assert send(route, timestamp=10**11)[0] == "accepted"
    assert [event["occurred_at"] for event in stored()] == [10**11] * (before + 1)


@cases("route", ROUTES)
def test_whole_numbers_are_ids_and_empty_arrays_are_empty_objects(
    send: Any, stored: Stored, route: str
) -> None:
    before = len(stored())
    assert send(route, visitorId=2**53 + 1, properties=[])[0] == "accepted"
    assert [(event["visitor_id"], event.get("properties")) for event in stored()] == [
        (str(2**53 + 1), None)
    ] * (before + 1)
    assert send(route, visitorId=7.5)[1] == {"visitorId": "wrong_type"}
    assert send(route, properties=[1])[1] == {"properties": "wrong_type"}


def test_every_id_of_a_transaction_may_be_a_number_and_its_amount_a_text(
    send: Any, workspace: Tenant, stored: Stored
) -> None:
    ids = {"userId": 1, "externalSessionId": 3, "transactionId": 4}
    sent = {**ids, "amount": "19.99", "currency": "usd"}
    assert send("/api/v1/transactions", **sent) == ("accepted", {})
    assert send("/api/v1/transactions", **{**sent, "transactionId": "4"})[0] == "duplicate"
    assert send("/api/v1/events", visitorId=None, userId="1", eventId=2) == ("accepted", {})
    [transaction, event] = sorted(stored(), key=lambda row: row["kind"], reverse=True)
    assert json.loads(transaction["properties"]) == {
        "amount": 19.99, "currency": "USD", "transactionId": "4",
    }  # fmt: skip
    assert (transaction["user_id"], transaction["external_session_id"]) == ("1", "3")
    assert (event["client_event_id"], event["visitor_id"]) == ("2", "v")


def test_identify_takes_numbers_and_empty_arrays(workspace: Tenant) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": 1, "userId": 2, "traits": []}
    answer = workspace.client.post("/api/identify", json=body).json()
    assert (answer["visitorId"], answer["warnings"][0]["code"]) == ("1", "id_was_a_number")


@cases("route", ROUTES)
def test_null_is_a_field_that_was_not_sent(send: Any, route: str) -> None:
    optional = {
        "properties": None, "timestamp": None, "userId": None, "droppedBefore": None,
        "externalSessionId": None, "country": None, "eventId": None,
    }  # fmt: skip
    if route == "/api/track":
        optional = {"properties": None, "timestamp": None, "sentAt": None, "dedupeKey": None,
                    "sessionId": None, "url": None, "utmSource": None, "path": None}  # fmt: skip
    if route == "import":
        optional = {"properties": None, "userId": None, "dedupeKey": None, "amount": None,
                    "currency": None, "transactionId": None, "device": None}  # fmt: skip
    assert send(route, **optional) == ("accepted", {})


@cases(
    ("route", "guess", "field"),
    [("/api/v1/events", "time", "timestamp"), ("/api/v1/events", "ts", "timestamp"),
     ("/api/track", "occurredAt", "timestamp"), ("/api/v1/events", "dedupeKey", "eventId"),
     ("/api/track", "eventId", "dedupeKey"), ("/api/v1/transactions", "revenue", "amount"),
     ("/api/track", "utm_source", "utmSource"), ("/api/v1/events", "user_id", "userId"),
     ("/api/v1/events", "props", "properties")],
)  # fmt: skip
def test_a_field_that_integrators_guess_gets_a_hint(
    workspace: Tenant, route: str, guess: str, field: str
) -> None:
    item = {"websiteId": workspace.website_id, "visitorId": "v", guess: "x"}
    item |= {"type": "event", "name": "e"} if route == "/api/track" else {"event": "e"}
    [error] = workspace.client.post(route, json=item).json()["errors"]
    assert (error["field"], error["code"]) == (guess, "unknown_field")
    assert f"Did you mean {field}?" in error["message"]


def test_a_hint_knows_nested_fields_and_names_no_field_that_is_not_there(
    client: httpx.Client,
) -> None:
    step = {"type": "Event", "value": "a", "filters": [{"key": "plan", "op": "equals"}]}
    funnel = {"name": "f", "steps": [step, step], "sequencePropertyField": "n", "time": 1}
    errors = client.post("/api/funnels", json=funnel).json()["errors"]
    messages = {error["field"]: error["message"] for error in errors}
    assert "Did you mean sequenceProperty?" in messages["sequencePropertyField"]
    assert "Did you mean property?" in messages["steps[0].filters[0].key"]
    assert "Did you mean operator?" in messages["steps[1].filters[0].op"]
    assert "Did you mean" not in messages["time"]


@cases(
    ("route", "hint"),
    [("/api/v1/events", "/api/v1/events/batch"), ("/api/track", '{"events": [...]}'),
     ("/api/v1/transactions", "one transaction")],
)  # fmt: skip
def test_an_array_on_a_route_for_one_event_points_to_the_batch(
    client: httpx.Client, route: str, hint: str
) -> None:
    assert hint in body_of(client.post(route, json=[{"event": "a"}]), 422)["errors"][0]["message"]


def test_a_line_of_an_import_may_name_its_event_as_backends_do(
    run_import: Any, stored: Stored
) -> None:
    line = {"type": "event", "visitorId": "v", "timestamp": 1_700_000_000_000}
    lines = [{**line, "event": "a"}, {**line, "event": "b", "name": "b"}]
    job = run_import([*lines, {**line, "event": "c", "name": "d"}])
    assert (job["accepted"], job["rejected"]) == (2, 1)
    assert sorted(event["name"] for event in stored()) == ["a", "b"]


@cases(
    ("query", "expected"),
    [("?UTM_Source=mail&utm_Medium=e", ("mail", "e")),
     ("?utm_source=mail&amp;utm_medium=e", ("mail", "e")),
     ("?utm_source=spring%2520sale&utm_medium=e%20f", ("spring sale", "e f")),
     ("?utm_source=100%25&utm_medium=a%2500", ("100%", "a%00"))],
)  # fmt: skip
def test_campaign_parameters_are_read_in_any_case_and_encoding(
    workspace: Tenant, server: Any, stored: Stored, query: str, expected: tuple[str, str]
) -> None:
    item = {"websiteId": workspace.website_id, "visitorId": query, "type": "pageview"}
    url = f"https://shop.example/a{query}"
    assert visitor(server).post("/api/track", json={**item, "url": url}).status_code == 202
    [event] = [event for event in stored() if event["visitor_id"] == query]
    assert (event["utm_source"], event["utm_medium"]) == expected


def test_a_nul_in_a_url_is_refused(workspace: Tenant, server: Any, stored: Stored) -> None:
    item = {"websiteId": workspace.website_id, "visitorId": "v", "type": "pageview", "path": "/"}
    answer = visitor(server).post("/api/track", json={**item, "url": "https://a.example/?a=%00"})
    assert faults(answer) == {"url": "nul_character"}


def test_white_space_around_the_legacy_header_is_no_fault(workspace: Tenant) -> None:
    answer = workspace.client.post(
        "/api/v1/events",
        json={"websiteId": workspace.website_id, "visitorId": "u", "event": "e"},
        headers={"x-service-identity-contract": "legacy-user-id "},
    )
    assert answer.status_code == 202
