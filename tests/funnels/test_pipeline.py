"""The path of every funnel query, over HTTP."""

from collections import Counter
from typing import Any

import pytest

from penstock.funnels.results import service
from penstock.funnels.statements.query import DataProfile, Statement
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.tenant import Tenant


@pytest.mark.usefixtures("warehouse")
def test_a_query_builds_each_statement_once(
    workspace: Tenant, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(workspace, clock)
    scene.story("0/A 10/B")
    funnel_id = scene.attempts("A", "B")
    built = Counter[DataProfile]()
    build = service.build

    def count(definition: Any, params: Any, profile: DataProfile) -> Statement:
        built[profile] += 1
        return build(definition, params, profile)

    monkeypatch.setattr(service, "build", count)
    response = workspace.client.get(f"/api/funnels/{funnel_id}/results")
    assert response.json()["aggregate"]["completed"] == 1
    assert list(built.values()) == [1]
