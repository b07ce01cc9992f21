"""POST /api/v1/transactions."""

from typing import Any

import httpx

from tests.answers import faults
from tests.cases import cases
from tests.events.conftest import Stored
from tests.tenant import Tenant


def post(workspace: Tenant, **fields: Any) -> httpx.Response:
    return workspace.client.post(
        "/api/v1/transactions",
        json={"websiteId": workspace.website_id, "visitorId": "v", "event": "purchase", **fields},
    )


def test_a_transaction_carries_its_amount_as_properties(workspace: Tenant, stored: Stored) -> None:
    answer = post(
        workspace, transactionId="t-1", amount=19.99, currency="EUR", properties={"coupon": "MAY"}
    )
    assert answer.status_code == 202
    assert answer.json() == {
        "status": "accepted",
        "eventId": answer.json()["eventId"],
        "visitorId": "v",
    }
    [row] = stored()
    assert (row["kind"], row["name"], row["source"]) == ("transaction", "purchase", "server")
    assert (
        row["properties"]
        == '{"coupon":"MAY","amount":19.99,"currency":"EUR","transactionId":"t-1"}'
    )


def test_the_transaction_id_recognises_a_repeat(workspace: Tenant, stored: Stored) -> None:
    first = post(workspace, transactionId="t-1", amount=5).json()
    again = post(workspace, transactionId="t-1", amount=5).json()
    assert again == {**first, "status": "duplicate"}
    other = post(workspace, transactionId="t-1", amount=6).json()
    assert (
        other["status"],
        other["eventId"],
        [warning["code"] for warning in other["warnings"]],
    ) == ("duplicate", first["eventId"], ["body_differs"])
    assert len(stored()) == 1


def test_without_a_transaction_id_the_event_id_recognises_a_repeat(workspace: Tenant) -> None:
    assert [post(workspace, eventId="e-1").json()["status"] for _ in range(2)] == [
        "accepted",
        "duplicate",
    ]


def test_transactions_and_events_have_ids_of_their_own(workspace: Tenant, site: str) -> None:
    workspace.client.post(
        "/api/v1/events",
        json={"websiteId": site, "visitorId": "v", "event": "e", "eventId": "same"},
    )
    assert post(workspace, transactionId="same").json()["status"] == "accepted"


@cases(
    ("fields", "expected"),
    [
        ({"amount": "5 EUR"}, {"amount": "wrong_type"}),
        ({"amount": "1e3"}, {"amount": "wrong_type"}),
        ({"amount": True}, {"amount": "wrong_type"}),
        ({"amount": 10**30}, {"amount": "out_of_range"}),
        ({"amount": 10**400}, {"amount": "out_of_range"}),
        ({"amount": 2**64}, {"amount": "out_of_range"}),
        ({"amount": 1e300}, {"amount": "out_of_range"}),
        ({"amount": -(2**63) - 1}, {"amount": "out_of_range"}),
        ({"currency": "eu"}, {"currency": "not_a_currency"}),
        ({"currency": "éur"}, {"currency": "not_a_currency"}),
        ({"currency": "EURO"}, {"currency": "not_a_currency"}),
        ({"currency": 978}, {"currency": "wrong_type"}),
        ({"transactionId": ""}, {"transactionId": "too_short"}),
        ({"event": None}, {"event": "required"}),
        (
            {"amount": 1, "properties": {"amount": 1, "currency": "EUR", "transactionId": "t"}},
            {
                "properties.amount": "given_twice",
                "properties.currency": "given_twice",
                "properties.transactionId": "given_twice",
            },
        ),
        ({"sessionId": "s"}, {"sessionId": "session_id_not_accepted"}),
    ],
)
def test_faults(
    workspace: Tenant, stored: Stored, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    answer = post(workspace, **fields)
    assert faults(answer) == expected
    assert stored() == []


@cases("amount", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_an_amount_is_finite(workspace: Tenant, site: str, amount: bytes) -> None:
    body = b'{"websiteId": "%s", "visitorId": "v", "event": "purchase", "amount": %s}' % (
        site.encode(),
        amount,
    )
    answer = workspace.client.post(
        "/api/v1/transactions", content=body, headers={"Content-Type": "application/json"}
    )
    assert faults(answer) == {"amount": "not_finite"}


def test_a_transaction_needs_a_key_of_the_websites_workspace(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    assert post(workspace, websiteId=other_workspace.website_id).status_code == 401
    body = {"websiteId": workspace.website_id, "visitorId": "v", "event": "purchase"}
    assert workspace.browser.post("/api/v1/transactions", json=body).status_code == 401


def test_an_amount_may_have_64_bits(workspace: Tenant, stored: Stored) -> None:
    """The limit is the one of properties, and the error names it."""
    answer = post(workspace, amount=2**64)
    assert "-2^63 and 2^64 - 1" in answer.json()["detail"]
    assert post(workspace, amount=2**64 - 1).status_code == 202
    [event] = stored()
    assert f'"amount":{2**64 - 1}' in event["properties"]
