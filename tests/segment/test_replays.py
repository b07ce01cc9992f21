"""Refused calls with events are stored after a fix, as if they had been valid at once."""

from typing import Any

import pytest

from penstock.app import Services
from penstock.base.clock import iso
from tests.conftest import ShiftedClock
from tests.segment.conftest import Client, Stored, rejected
from tests.tenant import Tenant
from tests.user_agents import IOS

ONE_KEY = pytest.mark.parametrize("limits", [{"max_website_property_keys": 1}])
CALL = {"event": "a", "messageId": "m-1", "properties": {"x": 1, "y": 2}, "context": {}}


def refused(tenant: Tenant) -> list[dict[str, Any]]:
    return tenant.client.get("/api/events/refused").json()["data"]


def raise_the_limit_of_keys(services: Services) -> None:
    services.intake._property_keys._limit = 10  # as the operator does by a setting


@ONE_KEY
@pytest.mark.parametrize("key", ["public", "trusted"])
def test_a_call_is_replayed_as_of_its_receipt_and_sender(
    key: str,
    request: pytest.FixtureRequest,
    services: Services,
    workspace: Tenant,
    stored: Stored,
    clock: ShiftedClock,
) -> None:
    client: Client = request.getfixturevalue(key)
    body = {"batch": [{"type": "track", "anonymousId": "v", **CALL}], "sentAt": iso(clock() - 60)}
    answer = client.post("/v1/batch", body, **{"User-Agent": IOS["safari"]})
    assert rejected(answer) == {0: {"properties": "too_many_property_keys"}}
    [entry] = refused(workspace)
    assert entry["replayable"]
    replay = f"/api/events/refused/{entry['number']}/replay"
    assert workspace.client.post(replay).status_code == 422
    raise_the_limit_of_keys(services)
    clock.advance(days=1)
    assert workspace.client.post(replay).status_code == 204
    assert refused(workspace) == []
    assert client.post("/v1/batch", body).json() == {"success": True}
    [row] = stored()
    source, device = ("browser", "mobile") if key == "public" else ("server", None)
    assert (row["name"], row["client_event_id"]) == ("a", "m-1")
    assert (row["source"], row.get("device")) == (source, device)
    assert iso(row["received_at"]) == entry["at"]
    [counts] = workspace.client.get("/api/events/counts").json()["data"]
    assert (counts["received"], counts["refused"], counts["duplicates"]) == (2, 0, 1)


@ONE_KEY
def test_all_calls_of_a_website_are_replayed_and_what_is_still_wrong_stays(
    public: Client, services: Services, workspace: Tenant, stored: Stored
) -> None:
    page = {"type": "page", "anonymousId": "v", "properties": {"path": "/", "x": 1, "y": 2}}
    public.batch({"type": "track", "anonymousId": "v", **CALL}, page, 7)
    public.batch({"type": "track", "anonymousId": "v"}, {"type": "alias", "userId": "u"})
    assert [entry["replayable"] for entry in refused(workspace)].count(True) == 3
    raise_the_limit_of_keys(services)
    answer = workspace.client.post(
        "/api/events/refused/replay", json={"websiteId": workspace.website_id}
    )
    assert answer.json() == {"replayed": 2, "refused": 3}
    assert sorted(row["kind"] for row in stored()) == ["event", "pageview"]
    rejected_page = workspace.browser.get("/refused").text
    assert "Send it again after the fix" in rejected_page
    [alias] = [entry for entry in refused(workspace) if "alias" in str(entry["item"])]
    assert not alias["replayable"]
    again = workspace.client.post(f"/api/events/refused/{alias['number']}/replay")
    assert again.json()["errors"][0]["code"] == "not_replayable"
