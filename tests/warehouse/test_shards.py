"""With two shards on real servers, each accepted event is stored once and reported."""

import httpx
import pytest

from tests.sharded import ShardedWarehouse
from tests.tenant import Tenant

STEPS = [{"type": "Event", "value": "opened"}, {"type": "Event", "value": "bought"}]


@pytest.fixture
def warehouse(sharded: ShardedWarehouse) -> ShardedWarehouse:
    return sharded


def post(workspace: Tenant, visitor: str, **fields: str) -> None:
    event = {"websiteId": workspace.website_id, "visitorId": visitor, "event": "opened", **fields}
    assert workspace.client.post("/api/v1/events", json=event).status_code == 202


def results_of_a_funnel(client: httpx.Client) -> str:
    funnel = client.post("/api/funnels", json={"name": "Buy", "steps": STEPS})
    assert funnel.status_code == 201, funnel.text
    return f"/api/funnels/{funnel.json()['id']}/results"


@pytest.mark.slow("reads twenty reports of two servers")
@pytest.mark.full("several shards")
def test_a_report_has_every_event_accepted_before_it(workspace: Tenant) -> None:
    results = results_of_a_funnel(workspace.client)
    for number in range(1, 21):
        post(workspace, f"v{number}")
        report = workspace.client.get(results).json()
        assert (report["aggregate"]["entered"], number) == (number, number)
