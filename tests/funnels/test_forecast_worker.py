"""The worker that makes the forecasts of saved funnels in the background."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.app import Services
from penstock.base.ids import WorkspaceId
from penstock.base.worker import WorkerStopped
from penstock.funnels.forecasts.service import LISTED_DAYS, latest_forecasts
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.warehouse.client import Warehouse
from tests.conftest import ShiftedClock
from tests.funnels.forecast_sets import ForecastSet
from tests.funnels.reference import Event
from tests.funnels.reference.forecast import DAY_MS
from tests.funnels.scenario import Scene, rows_of
from tests.funnels.test_forecasts import BY_NAME, saved
from tests.tenant import Tenant


@pytest.fixture
def recent(clock: ShiftedClock) -> ForecastSet:
    """A set whose events end now."""
    example = BY_NAME["few units"]
    shift_ms = clock() - example.now_ms

    def make() -> list[Event]:
        return [replace(event, at_ms=event.at_ms + shift_ms) for event in example.events]

    return replace(example, now_ms=example.now_ms + shift_ms, make=make)


def test_the_forecasts_of_saved_funnels_are_made_in_the_background(
    services: Services, scene: Scene, warehouse: Warehouse, recent: ForecastSet, clock: ShiftedClock
) -> None:
    funnel_id = saved(scene, warehouse, recent)
    runner, workspace_id = services.funnel_queries, WorkspaceId(scene.tenant.id)
    assert latest_forecasts(runner, workspace_id) == {}
    assert services.forecast_worker._step() >= 1
    assert services.forecast_worker._step() is None  # nothing else is due
    forecast = latest_forecasts(runner, workspace_id)[funnel_id, 1]
    now_ms = clock()
    period = {"startAt": now_ms - LISTED_DAYS * DAY_MS, "endAt": now_ms}
    report = scene.results(funnel_id, **period, forecast="true")
    assert forecast is not None
    assert report["forecast"]["rate"] == pytest.approx(forecast.rate, abs=0.001)
    assert report["forecast"]["history"] == forecast.model_dump(by_alias=True)["history"]
    clock.advance(days=1.1)
    assert latest_forecasts(runner, workspace_id) == {}


def test_a_node_that_dies_leaves_its_turn_to_another(
    services: Services, scene: Scene, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three deaths, the forecast waits for the next day."""
    scene.attempts("A", "B")
    steps = 0

    def die(*_: object) -> None:
        nonlocal steps
        steps += 1
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(FunnelQueryRunner, "prepare", die)
        for _ in range(3):
            with pytest.raises(SystemExit):
                services.forecast_worker._step()
            assert services.forecast_worker._step() is None  # leased
            clock.advance(days=0.05)
        assert services.forecast_worker._step() is not None
    assert steps == 3
    assert latest_forecasts(services.funnel_queries, WorkspaceId(scene.tenant.id)) == {}
    clock.advance(days=1)
    services.forecast_worker._step()
    assert latest_forecasts(services.funnel_queries, WorkspaceId(scene.tenant.id))


def test_a_changed_definition_is_forecast_again(services: Services, scene: Scene) -> None:
    funnel_id = scene.attempts("A", "B")
    services.forecast_worker._step()
    first = latest_forecasts(services.funnel_queries, WorkspaceId(scene.tenant.id))
    assert first == {(funnel_id, 1): None}
    changed = scene.definition(funnel_id) | {"steps": rows_of(["A", "C"])}
    assert scene.client.put(f"/api/funnels/{funnel_id}", json=changed).status_code == 200
    services.forecast_worker._step()
    assert {(funnel_id, 2): None} == latest_forecasts(
        services.funnel_queries, WorkspaceId(scene.tenant.id)
    )


def test_workspaces_take_turns(
    services: Services, scene: Scene, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    """However many funnels one of them has."""
    for _ in range(4):
        scene.attempts("A", "B")
    Scene(other_workspace, clock).attempts("A", "B")
    for _ in range(2):
        services.forecast_worker._step()
    for tenant in (scene.tenant, other_workspace):
        assert len(latest_forecasts(services.funnel_queries, WorkspaceId(tenant.id))) == 1


def test_the_end_of_the_service_ends_a_forecast(
    services: Services, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no attempt away, and another node may begin at once."""
    scene.attempts("A", "B")
    worker, prepare = services.forecast_worker, FunnelQueryRunner.prepare

    def stop_first(*arguments: Any, **more: Any) -> QueryContext:
        worker._stop_forecast()
        return prepare(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(FunnelQueryRunner, "prepare", stop_first)
        for _ in range(4):
            with pytest.raises(WorkerStopped):
                worker._step()
    worker._step()
    assert latest_forecasts(services.funnel_queries, WorkspaceId(scene.tenant.id))
