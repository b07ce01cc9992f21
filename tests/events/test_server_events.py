"""POST /api/v1/events: accepted events, their answers, and what is stored."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.base.clock import iso
from penstock.events import intake
from tests.answers import body_of, faults, problem
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.events.conftest import Post, Stored
from tests.tenant import Tenant, visitor

HOUR_MS = 3_600_000


def test_an_event_is_answered_and_stored_with_everything_it_carries(
    post_event: Post, stored: Stored, site: str, clock: ShiftedClock
) -> None:
    at_ms = clock() - HOUR_MS
    properties = {
        "plan": "pro",
        "n": 7,
        "price": 9.5,
        "trial": False,
        "nothing": None,
        "nested": {"a": [1, {"b": "c"}]},
        "ключ": "€",
    }
    answer = post_event(
        userId="user-1",
        externalSessionId="session-1",
        eventId="order-1",
        timestamp=iso(at_ms),
        country="DE",
        region="BE",
        properties=properties,
    )
    event_id = body_of(answer, 202)["eventId"]
    assert answer.json() == {"status": "accepted", "eventId": event_id, "visitorId": "visitor-1"}
    [row] = stored()
    assert event_id.startswith("evt_")
    received_at = row.pop("received_at")
    assert clock() - 10_000 < received_at <= clock()
    assert {name: row.pop(name) for name in ("visitor_key", "scalars", "hashes", "properties")}
    assert row == {
        "website_id": site, "scope_id": site, "kind": "event", "name": "signed_up",
        "source": "server", "event_id": event_id, "client_event_id": "order-1",
        "visitor_id": "visitor-1", "user_id": "user-1", "external_session_id": "session-1",
        "country": "DE", "region": "BE",
        "occurred_at": at_ms, "stated_at": at_ms,
    }  # fmt: skip


def test_properties_are_stored_as_sent(post_event: Post, stored: Stored) -> None:
    post_event(properties={"b": 1, "a": {"x": [1.5, None, "é"]}, "big": 2**64 - 1, "low": -(2**63)})
    assert (
        stored()[0]["properties"]
        == '{"b":1,"a":{"x":[1.5,null,"é"]},"big":18446744073709551615,"low":-9223372036854775808}'
    )


def test_without_a_timestamp_the_time_of_receipt_counts(post_event: Post, stored: Stored) -> None:
    post_event()
    [row] = stored()
    assert row["occurred_at"] == row["stated_at"] == row["received_at"]


@cases(
    ("timestamp", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        (0, 0),
        ("100000000000", 100_000_000_000),
        ("2025-11-21 01:53:20.123 UTC", 1_763_690_000_123),
        ("2001-09-09T01:46:39.999Z", 999_999_999_999),
        (1_763_690_000_123, 1_763_690_000_123),
        ("2025-11-21T03:53:20.123456+02:00", 1_763_690_000_123),
        ("2025-11-20T20:53:20.123-05:00", 1_763_690_000_123),
    ],
)
def test_times_are_stored_to_the_millisecond(
    post_event: Post, stored: Stored, timestamp: str | int, at_ms: int
) -> None:
    own = f"visitor at {timestamp}"
    assert post_event(visitorId=own, timestamp=timestamp).status_code == 202
    [row] = [row for row in stored() if row["visitor_id"] == own]
    assert row.get("occurred_at") == at_ms


def test_name_is_an_alias_of_event(post_event: Post, stored: Stored) -> None:
    assert post_event(event=..., name="renamed").status_code == 202
    assert post_event(event="renamed", name="renamed").status_code == 202
    assert {row["name"] for row in stored()} == {"renamed"}


def test_two_different_names_are_a_fault(post_event: Post) -> None:
    assert faults(post_event(event="a", name="b")) == {"name": "alias_differs"}


def test_no_name_is_a_fault(post_event: Post) -> None:
    assert faults(post_event(event=...)) == {"event": "required"}


def test_an_event_needs_a_visitor_or_a_user(post_event: Post, stored: Stored) -> None:
    answer = post_event(visitorId=...)
    assert faults(answer) == {"visitorId": "identity_required", "userId": "identity_required"}
    assert post_event(visitorId=None, userId=None).status_code == 422
    assert stored() == []


def test_session_id_is_rejected_with_the_way_out(post_event: Post) -> None:
    answer = post_event(sessionId="s")
    assert faults(answer) == {"sessionId": "session_id_not_accepted"}
    assert "externalSessionId" in answer.json()["errors"][0]["message"]


def test_all_faults_come_at_once(post_event: Post) -> None:
    answer = post_event(
        event=...,
        visitorId=True,
        sessionId="s",
        eventId="",
        timestamp="yesterday",
        properties={"$a": 1, "b": 10**30},
        country="",
        unheard=1,
    )
    assert faults(answer) == {
        "visitorId": "wrong_type",
        "sessionId": "session_id_not_accepted",
        "eventId": "too_short",
        "timestamp": "not_a_time",
        "properties.$a": "reserved_property",
        "properties.b": "integer_out_of_range",
        "country": "too_short",
        "unheard": "unknown_field",
        "event": "required",
    }


def test_a_time_too_far_ahead_is_rejected(post_event: Post, clock: ShiftedClock) -> None:
    assert post_event(timestamp=clock() + 290_000).status_code == 202
    assert faults(post_event(timestamp=clock() + 310_000)) == {"timestamp": "timestamp_in_future"}


def test_a_time_before_1970_is_rejected(post_event: Post) -> None:
    assert faults(post_event(timestamp=-1)) == {"timestamp": "before_1970"}
    assert faults(post_event(timestamp="1969-12-31T23:59:59.999Z")) == {"timestamp": "before_1970"}


@cases(
    "timestamp",
    [
        *(True, 1_763_690_000_000.5, [], {}, "2025-11-21T03:53:20", "noon", "", "9" * 5000),
        "2025-13-01T00:00:00Z",
    ],
)
def test_a_value_that_is_no_time_is_rejected(post_event: Post, timestamp: object) -> None:
    assert faults(post_event(timestamp=timestamp)) == {"timestamp": "not_a_time"}


def test_a_foreign_website_is_unauthorized(
    workspace: Tenant, other_workspace: Tenant, post_event: Post, stored: Stored
) -> None:
    for website_id in (other_workspace.website_id, "web_unheard", "\x00"):
        answer = post_event(websiteId=website_id)
        assert answer.status_code in (401, 422), answer.text
    assert post_event(websiteId=other_workspace.website_id).headers["www-authenticate"] == "Bearer"
    assert stored() == []


@cases(
    "headers",
    [
        {},
        {"Authorization": "Bearer psk_unheard"},
        {"Authorization": "Basic abc"},
        {"Authorization": ""},
    ],
)
def test_without_a_valid_key_nothing_is_accepted(
    server: TestClient[Litestar], site: str, headers: dict[str, str], stored: Stored
) -> None:
    answer = visitor(server, headers).post(
        "/api/v1/events", json={"websiteId": site, "visitorId": "v", "event": "e"}
    )
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert stored() == []


def test_a_revoked_key_is_unauthorized(workspace: Tenant, post_event: Post) -> None:
    assert post_event().status_code == 202
    [key] = workspace.browser.get("/api/settings/api-keys").json()["data"]
    workspace.browser.delete(f"/api/settings/api-keys/{key['id']}")
    assert post_event().status_code == 401


def test_the_callers_address_is_no_evidence_of_the_visitors_place(
    post_event: Post, stored: Stored
) -> None:
    post_event(
        headers={
            "X-Forwarded-For": "198.51.100.7",
            "User-Agent": "Mozilla/5.0 (Windows NT 10.0) Chrome/120.0 Safari/537.36",
        }
    )
    assert not {"country", "region", "device", "os", "browser"} & set(stored()[0])
    assert "198.51.100.7" not in str(stored())


def test_legacy_contract_reads_the_visitor_as_the_user(post_event: Post, stored: Stored) -> None:
    legacy = {"x-service-identity-contract": "legacy-user-id"}
    answer = post_event(visitorId="customer-1", headers=legacy)
    assert answer.status_code == 202
    assert answer.headers["deprecation"] == "@1767225600"
    visitor_id = answer.json()["visitorId"]
    assert visitor_id != "customer-1"
    assert post_event(visitorId=..., userId="customer-1").json()["visitorId"] == visitor_id
    answer = post_event(visitorId="customer-1", userId="customer-1", headers=legacy)
    assert answer.json()["visitorId"] == visitor_id
    assert [row["user_id"] for row in stored()] == ["customer-1"] * 3
    assert "deprecation" not in post_event().headers


def test_legacy_contract_with_a_different_user_is_ambiguous(post_event: Post) -> None:
    answer = post_event(
        visitorId="a", userId="b", headers={"x-service-identity-contract": "legacy-user-id"}
    )
    assert faults(answer) == {"userId": "identity_ambiguous"}


@cases("contract", ["legacy", "LEGACY-USER-ID", ""])
def test_another_contract_is_malformed(post_event: Post, contract: str) -> None:
    answer = post_event(headers={"x-service-identity-contract": contract})
    assert problem(answer) == (400, "unknown_identity_contract")


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (lambda text: text, {"Content-Type": "application/json"}),
        (lambda text: text, {"Content-Type": "Application/JSON; charset=utf-8"}),
        (lambda text: iter([text[:20], text[20:]]), {"Content-Type": "application/json"}),
    ],
    ids=["plain", "charset", "in pieces"],
)
def test_a_post_has_the_same_answer_however_its_body_is_sent(
    workspace: Tenant,
    site: str,
    stored: Stored,
    content: Callable[[bytes], bytes | Iterator[bytes]],
    headers: dict[str, str],
) -> None:
    def post(**fields: str) -> httpx.Response:
        event = {"websiteId": site, "visitorId": "null", "event": "e", "eventId": "1", **fields}
        return workspace.client.post(
            "/api/v1/events", content=content(json.dumps(event).encode()), headers=headers
        )

    first, again, refused = post(), post(event="f"), post(event="")
    event_id = first.json()["eventId"]
    assert (first.status_code, first.headers["content-type"]) == (202, "application/json")
    assert first.json() == {
        "status": "accepted",
        "eventId": event_id,
        "visitorId": "null",
        "warnings": [warning_of("placeholder_id", first)],
    }
    assert again.json() == {
        "status": "duplicate",
        "eventId": event_id,
        "visitorId": "null",
        "warnings": [warning_of("body_differs", again)],
    }
    assert faults(refused) == {"event": "too_short"}
    assert len(stored()) == 1


def warning_of(code: str, answer: httpx.Response) -> dict[str, str]:
    [warning] = answer.json()["warnings"]
    return {"code": code, "message": warning["message"]}


def test_a_full_intake_says_when_to_retry(
    post_event: Post, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_WAITING", 0)
    answer = post_event()
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        503,
        "overloaded",
        "1",
    )
    assert stored() == []


def test_other_methods_are_refused(workspace: Tenant) -> None:
    answer: httpx.Response = workspace.client.get("/api/v1/events")
    assert answer.status_code == 405
