"""Warnings beside accepted events: numbers as IDs and suspicious countries, on every route."""

from typing import Any

import httpx

from tests.answers import body_of
from tests.events.conftest import Stored
from tests.tenant import Tenant, visitor

NUMBER_WARNING = "id_was_a_number"
COUNTRY_WARNING = "country_not_iso"


def warning_codes(result: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in result.get("warnings", ())]


def result_of(answer: httpx.Response) -> dict[str, Any]:
    """The result of the only item, on a route for one event or for many."""
    body: dict[str, Any] = body_of(answer, 202)
    return body["results"][0] if "results" in body else body


def send(workspace: Tenant, route: str, **fields: Any) -> dict[str, Any]:
    item = {"websiteId": workspace.website_id, "visitorId": "v", **fields}
    item |= {"type": "event", "name": "e"} if route == "/api/track" else {"event": "e"}
    body = {"events": [item]} if route.endswith("/batch") else item
    return result_of(workspace.client.post(route, json=body))


def test_a_duplicate_has_the_warnings_of_its_own_body(workspace: Tenant) -> None:
    first = send(workspace, "/api/v1/events", eventId=1)
    repeat = send(workspace, "/api/v1/events", eventId=1)
    assert (repeat["status"], repeat["eventId"]) == ("duplicate", first["eventId"])
    assert warning_codes(repeat) == [NUMBER_WARNING]


COUNTRIES = {
    "DE": [],
    "de": [],
    "Germany": [COUNTRY_WARNING],
    "DEU": [COUNTRY_WARNING],
    "D1": [COUNTRY_WARNING],
    "ÄÖ": [COUNTRY_WARNING],
}


def test_a_country_other_than_two_letters_is_stored_as_sent_with_a_warning(
    workspace: Tenant, stored: Stored
) -> None:
    for route in ("/api/v1/events", "/api/v1/events/batch"):
        for country, codes in COUNTRIES.items():
            result = send(workspace, route, country=country)
            assert (result["status"], warning_codes(result)) == ("accepted", codes), country
    assert sorted(event["country"] for event in stored()) == sorted([*COUNTRIES, *COUNTRIES])


def test_all_warnings_come_together(workspace: Tenant) -> None:
    result = send(workspace, "/api/v1/events", visitorId="null", userId=7, country="Germany")
    assert sorted(warning_codes(result)) == sorted(
        [NUMBER_WARNING, COUNTRY_WARNING, "placeholder_id"]
    )


def test_the_tracker_needs_no_key_for_its_warnings(workspace: Tenant, server: Any) -> None:
    item = {
        "websiteId": workspace.website_id, "type": "pageview", "path": "/", "visitorId": 7,
    }  # fmt: skip
    answer = visitor(server).post("/api/track", json=item)
    assert warning_codes(result_of(answer)) == [NUMBER_WARNING]
