"""Stored outcomes on replicas agree with events while servers die and return."""

from collections.abc import Callable

import pytest

from penstock.app import Services
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import DATABASE
from tests.events.deletions.conftest import finished, request_deletion
from tests.funnels.scenario import Scene
from tests.funnels.test_outcomes import Stored
from tests.replicas.cluster import ReplicatedCluster
from tests.replicas.test_faults import each
from tests.replicas.test_returns import return_without_rows
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("stops and restarts servers")]

UNITS = 40


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 3}).with_limits(
        stored_outcomes_after_ms=0
    )


@pytest.fixture
def funnel(
    cluster: ReplicatedCluster,
    workspace: Tenant,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> Stored:
    stored = Stored(Scene(workspace, services.clock), services, monkeypatch, "A", "B")
    send(stored, range(UNITS))
    return stored


def send(funnel: Stored, units: range, step: str = "A") -> None:
    """Send an event of each unit in one request, so that it reaches both shards."""
    scene, seconds = funnel.scene, 60 if step == "B" else 0
    scene.track([scene.item(seconds, step, "ann", attempt=f"a{unit}") for unit in units])


def agree(funnel: Stored, completed: int) -> Callable[[], bool]:
    """Whether a complete report has this number; one that says that it is complete has no other.

    A report that stored outcomes answered equals the direct one.
    """

    def read() -> bool:
        body = funnel.ask()
        if "not_fresh" in body["coverage"]["noteCodes"]:
            return False
        assert body["aggregate"]["completed"] == completed, body["servedFrom"]
        return body["servedFrom"] == "outcomes"

    return read


def test_stored_outcomes_agree_after_changes_and_a_deletion(
    funnel: Stored, workspace: Tenant
) -> None:
    funnel.assert_equal()
    for number in range(5):
        send(funnel, range(number, number + 3), "B")
        assert funnel.completed() == number + 3
    scene = funnel.scene
    scene.track([scene.item(60, "B", "eve", attempt="a39")])
    assert funnel.completed() == 8
    deletion = request_deletion(workspace.client, workspace.website_id, visitorId="eve")
    assert finished(workspace.client, deletion["id"])["eventsRemoved"] == 1
    assert funnel.completed() == 7


@each
def test_stored_outcomes_go_on_while_one_server_of_four_is_down(
    cluster: ReplicatedCluster, number: int, funnel: Stored
) -> None:
    funnel.assert_equal()
    cluster.sync()
    cluster.servers[number].kill()
    send(funnel, range(UNITS // 2), "B")
    eventually(agree(funnel, UNITS // 2))
    cluster.heal()
    send(funnel, range(UNITS), "B")
    eventually(agree(funnel, UNITS))
    funnel.assert_equal()


def test_rows_that_a_returning_server_has_not_fetched_are_not_read(
    cluster: ReplicatedCluster, funnel: Stored
) -> None:
    funnel.assert_equal()
    cluster.sync()
    cluster.servers[0].kill()
    send(funnel, range(UNITS // 2), "B")
    eventually(agree(funnel, UNITS // 2))
    return_without_rows(cluster, 0, "funnel_outcomes")
    reports = [funnel.ask() for _ in range(10)]
    complete = [each for each in reports if "not_fresh" not in each["coverage"]["noteCodes"]]
    assert {each["aggregate"]["completed"] for each in complete} <= {UNITS // 2}
    assert {each["servedFrom"] for each in reports} == {"query"}
    cluster.heal()
    eventually(agree(funnel, UNITS // 2))
    funnel.assert_equal()


def test_rows_that_only_a_dead_server_has_are_not_missing(
    cluster: ReplicatedCluster, funnel: Stored, warehouse: Warehouse
) -> None:
    """The server that folded dies before another has fetched its rows."""
    funnel.assert_equal()
    cluster.sync()
    for number in (1, 2, 3):
        cluster.hold_fetches(number)
    send(funnel, range(UNITS // 2), "B")
    eventually(agree(funnel, UNITS // 2))
    rows = f"SELECT count() FROM {DATABASE}.funnel_outcomes"  # noqa: S608 - names of this file
    assert int(cluster.servers[0].execute(rows)) > int(cluster.servers[1].execute(rows))
    cluster.servers[0].kill()
    for _ in range(5):
        body = funnel.ask()
        assert body["servedFrom"] == "query"
        is_complete = "not_fresh" not in body["coverage"]["noteCodes"]
        assert not is_complete or body["aggregate"]["completed"] == UNITS // 2
    cluster.heal()
    eventually(agree(funnel, UNITS // 2))
    funnel.assert_equal()
