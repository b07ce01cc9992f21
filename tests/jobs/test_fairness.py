"""One workspace with many slow requests delays itself, and no other."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from litestar.testing import TestClient

from penstock.base.fair_queue import FairQueue
from penstock.warehouse.client import Warehouse
from tests.answers import problem
from tests.applications import application
from tests.recording_warehouse import ENDLESS, RecordingWarehouse
from tests.tenant import BASE_URL, Tenant, connecting_from
from tests.waiting import eventually

PREVIEWS = 60


class SlowFor(RecordingWarehouse):
    """While `slow`, statements about an event named `slow...` run until they are killed."""

    slow = False

    def query(self, sql, parameters=None, settings=None):
        if self.slow and any("slow" in str(value) for value in (parameters or {}).values()):
            super().query(ENDLESS)
        return super().query(sql, parameters, settings)

    def end(self) -> bool:
        """Kill slow statements, including new ones. Always true."""
        self.slow = False
        self._watcher.command("KILL QUERY WHERE query LIKE '%numbers(%' ASYNC")
        return True


@pytest.fixture
def warehouse(warehouse: Warehouse) -> SlowFor:
    return SlowFor(warehouse)


def preview(tenant: Tenant, first: str, headers: dict[str, str] | None = None):
    steps = [{"type": "Event", "value": first}, {"type": "Event", "value": "B"}]
    return tenant.client.post("/api/funnels/preview", json={"steps": steps}, headers=headers or {})


@pytest.mark.slow("forty slow statements begin and are killed, two at a time")
def test_sixty_slow_previews_of_one_workspace_leave_another_its_answers(
    workspace, other_workspace, warehouse, scene
):
    scene.story("0/A 60/B")
    with ThreadPoolExecutor(PREVIEWS + 1) as threads:
        warehouse.slow = True
        slow = [threads.submit(preview, workspace, f"slow{n}") for n in range(PREVIEWS)]
        eventually(lambda: warehouse.running() >= 2)
        try:
            answer = threads.submit(preview, other_workspace, "A").result(timeout=45)
            assert answer.status_code == 200
            # The queue is full for the one workspace alone, which hears so at once.
            eventually(lambda: sum(request.done() for request in slow) >= 20)
            refused = [request.result() for request in slow if request.done()]
            assert len(refused) == 20
            assert {request.status_code for request in refused} == {503}
            assert {request.json()["code"] for request in refused} == {"busy"}
            assert all(int(request.headers["retry-after"]) > 0 for request in refused)
            assert preview(workspace, "A").status_code == 503
            assert warehouse.running() == 2
        finally:
            eventually(lambda: warehouse.end() and all(request.done() for request in slow))
    assert preview(workspace, "A").status_code == 200


def fill(queue: FairQueue, key: str) -> None:
    """Occupy every slot and every turn in the queue that the key may have."""
    for _ in range(queue.limits.slots_per_key + queue.limits.waiting_per_key):
        queue.enter(key, lambda: None)


def assert_busy(answer) -> None:
    assert problem(answer) == (503, "busy")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("queue", ["validation", "definition_checks"])
def test_a_full_queue_refuses_its_workspace_and_serves_others(
    workspace, other_workspace, services, queue
):
    fill(getattr(services, queue), workspace.id)
    event = {"event": "A", "userId": "u1"}
    steps = [{"type": "Event", "value": name} for name in "AB"]
    of_definitions = {
        "/api/funnels": {"name": "F", "steps": steps},
        "/api/funnels/validate": {"name": "F", "steps": steps},
        "/api/funnels/preview": {"steps": steps},
        "/api/goals": {"name": "G", "match": steps[0]},
        "/api/segments": {"name": "S", "filters": [{"property": "p", "operator": "is_set"}]},
    }
    of_events = {
        "/api/v1/events/batch": {"events": [event]},
        # A few items are validated at once, without a turn in the queue.
        "/api/track": {"events": [{"type": "event", "name": "A", "visitorId": "v1"}] * 50},
    }
    for path, body in (of_definitions | of_events).items():
        is_full = (queue == "validation") == ("events" in body)
        for tenant in (workspace, other_workspace):
            own = {"websiteId": tenant.website_id}
            if "events" in body:
                body = {"events": [item | own for item in body["events"]]}
            answer = tenant.client.post(path, json=body)
            if tenant is workspace and is_full:
                assert_busy(answer)
            else:
                assert answer.status_code in (200, 201, 202), answer.text


def test_log_ins_of_one_network_wait_for_each_other_and_for_nobody_else(services, workspace):
    form = {"email": workspace.email, "password": "wrong horse battery"}
    fill(services.password_work, "2001:db8::/64")
    app = application(services)
    for address, is_busy in (
        ("2001:db8::1", True),
        ("2001:db8::2:3", True),
        ("2001:db8:1::1", False),
        ("203.0.113.7", False),
    ):
        client = TestClient(connecting_from(address, app), base_url=BASE_URL)
        answer = client.post("/api/auth/login", json=form)
        if is_busy:
            assert_busy(answer)
        else:
            assert problem(answer) == (401, "wrong_login")
