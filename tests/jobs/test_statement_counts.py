"""How many statements each funnel query runs in the engine: a bound that must not rise."""

import pytest

from tests.funnels.scenario import DAY_S, Scene
from tests.one_server import one_server
from tests.recording_warehouse import AT_START, RecordingWarehouse

SNAPSHOT = 5
"""State, rows, state again, profile, state again."""

FETCH = 2
"""The statement of the answer, then the state."""

STATEMENTS = {
    "results": (SNAPSHOT + FETCH, {}),
    "trend": (SNAPSHOT + FETCH, {}),
    "timing": (SNAPSHOT + FETCH, {}),
    "next": (SNAPSHOT + FETCH, {"step": 1}),
    "verdict": (SNAPSHOT + FETCH, {}),
    "drivers": (SNAPSHOT + 3 * FETCH, {"step": 1}),
    "flows": (SNAPSHOT + FETCH, {}),
    "compare": (SNAPSHOT + FETCH, {"property": "plan"}),
    "export": (SNAPSHOT + 0, {}),
    "units": (SNAPSHOT + 3 * FETCH, {}),  # the page, the names and the last activities
    "units/a1": (SNAPSHOT + 2 * FETCH, {}),
}


@one_server("a cluster also reads how its tables are stored")
@pytest.mark.usefixtures("without_merges")
@pytest.mark.parametrize("path", STATEMENTS)
def test_a_first_query_runs_no_more_statements(
    scene: Scene, warehouse: RecordingWarehouse, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    scene.story("0/A 60/B", plan="pro")
    scene.story(f"{DAY_S}/A", attempt="a2", plan="free")
    funnel = scene.attempts("A", "B", breakdownProperties=["plan"])
    warehouse.orders_inserts()  # asks a server once
    statements = []
    query = warehouse.query
    monkeypatch.setattr(
        warehouse, "query", lambda sql, *more: (statements.append(sql), query(sql, *more))[1]
    )
    count, parameters = STATEMENTS[path]
    answer = scene.client.get(f"/api/funnels/{funnel}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    assert len([sql for sql in statements if sql not in AT_START]) == count
