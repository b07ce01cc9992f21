"""One workspace with many slow requests delays itself, and no other."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.warehouse.client import Warehouse
from tests.tenant import Tenant
from tests.watched import FOR_EVER, Watched, eventually

PREVIEWS = 60


class SlowFor(Watched):
    """While `slow`, statements about an event named `slow...` run until they are killed."""

    slow = False

    def query(self, sql, parameters=None, settings=None):
        if self.slow and any("slow" in str(value) for value in (parameters or {}).values()):
            super().query(FOR_EVER)
        return super().query(sql, parameters, settings)

    def end(self) -> bool:
        """Kill what is slow, also what begins to be. Always true."""
        self.slow = False
        self._watcher.command("KILL QUERY WHERE query LIKE '%numbers(%' ASYNC")
        return True


@pytest.fixture
def warehouse(warehouse: Warehouse) -> SlowFor:
    return SlowFor(warehouse)


def preview(tenant: Tenant, first: str, headers: dict[str, str] | None = None):
    steps = [{"type": "Event", "value": first}, {"type": "Event", "value": "B"}]
    return tenant.client.post("/api/funnels/preview", json={"steps": steps}, headers=headers or {})


@pytest.mark.slow("forty slow statements begin and are killed, three at a time")
def test_sixty_slow_previews_of_one_workspace_leave_another_its_answers(
    workspace, other_workspace, warehouse, scene
):
    scene.story("0/A 60/B")
    with ThreadPoolExecutor(PREVIEWS + 1) as threads:
        warehouse.slow = True
        slow = [threads.submit(preview, workspace, f"slow{n}") for n in range(PREVIEWS)]
        eventually(lambda: warehouse.running() >= 3)
        try:
            answer = threads.submit(preview, other_workspace, "A").result(timeout=20)
            assert answer.status_code == 200
            # The queue is full for the one workspace alone, which hears so at once.
            eventually(lambda: sum(request.done() for request in slow) >= 20)
            refused = [request.result() for request in slow if request.done()]
            assert len(refused) == 20
            assert {request.status_code for request in refused} == {503}
            assert {request.json()["code"] for request in refused} == {"busy"}
            assert all(int(request.headers["retry-after"]) > 0 for request in refused)
            assert preview(workspace, "A").status_code == 503
            assert warehouse.running() == 3
        finally:
            eventually(lambda: warehouse.end() and all(request.done() for request in slow))
    assert preview(workspace, "A").status_code == 200
