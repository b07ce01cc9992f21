"""The table of all units has the same outcomes as lists and reports."""

import json
from io import BytesIO
from itertools import count

import pytest
from pyarrow import parquet

from penstock.funnels.units import table as writer
from tests.funnels.scenario import column
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

AT = "2026-05-01T10:{:02}:00.000Z"
STEPS = ["started", "paid", "shipped"]
_numbers = count(1)


def send(workspace: Tenant, event: str, minute: int, unit: str, **properties: str) -> None:
    body = {
        "websiteId": workspace.website_id,
        "userId": f"user-of-{unit}",
        "event": event,
        "timestamp": AT.format(minute),
        "properties": {"cart": unit, **properties},
    }
    assert workspace.client.post("/api/v1/events", json=body).status_code == 202


def new_funnel(workspace: Tenant, **more: object) -> str:
    funnel = {
        "name": f"Checkout {next(_numbers)}",
        "countingUnit": "attempt",
        "attemptProperty": "cart",
        "breakdownProperties": ["plan"],
        "steps": [{"type": "Event", "value": name} for name in STEPS],
        **more,
    }
    answer = workspace.client.post("/api/funnels", json=funnel)
    assert answer.status_code == 201, answer.text
    funnel_id: str = answer.json()["id"]
    return funnel_id


def table(workspace: Tenant, funnel_id: str, **query: str) -> list[dict[str, object]]:
    path = f"/api/funnels/{funnel_id}/unit-table"
    answer = workspace.client.get(path, params={"format": "ndjson", **query})
    assert answer.status_code == 200, answer.text
    rows = [json.loads(line) for line in answer.text.splitlines()]
    return sorted(rows, key=lambda row: str(row["unit"]))


@pytest.fixture
def carts(workspace: Tenant) -> Tenant:
    """Three carts: one gets as far as the end, one pays, and one only starts, without a plan."""
    for minute, event in enumerate(STEPS):
        send(workspace, event, minute, "cart-a", plan="pro")
    for minute, event in enumerate(STEPS[:2]):
        send(workspace, event, minute, "cart-b", plan="free")
    send(workspace, "started", 5, "cart-c")
    return workspace


def test_each_unit_has_its_entry_cohort_step_times_and_outcome(carts: Tenant) -> None:
    rows = table(carts, new_funnel(carts))
    assert [
        (row["unit"], row["entry_at"], row["cohort"], row["outcome"], row["reached"])
        for row in rows
    ] == [
        ("cart-a", AT.format(0), {"plan": "pro"}, "completed", 3),
        ("cart-b", AT.format(0), {"plan": "free"}, "droppedOff", 2),
        ("cart-c", AT.format(5), {"plan": None}, "droppedOff", 1),
    ]
    assert [[row[f"step_{step}_at"] for step in (1, 2, 3)] for row in rows] == [
        [AT.format(0), AT.format(1), AT.format(2)],
        [AT.format(0), AT.format(1), None],
        [AT.format(5), None, None],
    ]


def test_the_table_selects_units_like_the_report(carts: Tenant) -> None:
    funnel_id = new_funnel(carts)
    rows = table(carts, funnel_id, cohort='{"plan": "free"}')
    assert column(rows, "unit") == ["cart-b"]
    later = {"startAt": AT.format(1), "endAt": AT.format(9)}
    assert column(table(carts, funnel_id, **later), "unit") == ["cart-c"]


def test_visitors_are_units_too_and_excluded_units_say_when(carts: Tenant) -> None:
    steps = [
        {"type": "Event", "value": "started"},
        {"type": "Event", "value": "paid", "exclude": True},
        {"type": "Event", "value": "shipped"},
    ]
    visitors = {"countingUnit": "visitor", "steps": steps, "conversionWindowSeconds": 86_400}
    rows = table(carts, new_funnel(carts, attemptProperty=None, **visitors))
    assert {row["unit"] for row in rows} == {
        unit["unit"]
        for funnel in [new_funnel(carts, attemptProperty=None, **visitors)]
        for unit in carts.client.get(f"/api/funnels/{funnel}/units").json()["data"]
    }
    outcomes = sorted((str(row["outcome"]), row["excluded_at"] is not None) for row in rows)
    assert outcomes == [("droppedOff", False), ("excluded", True), ("excluded", True)]


def test_parquet_has_times_as_times(carts: Tenant) -> None:
    path = f"/api/funnels/{new_funnel(carts)}/unit-table"
    answer = carts.client.get(path)
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    file = parquet.read_table(BytesIO(answer.content))
    assert str(file.schema.field("entry_at").type) == "timestamp[ms, tz=UTC]"
    assert sorted(json.loads(text)["plan"] or "" for text in file["cohort"].to_pylist()) == [
        "",
        "free",
        "pro",
    ]


def test_a_funnel_without_units_has_an_empty_table(workspace: Tenant) -> None:
    funnel_id = new_funnel(workspace)
    assert table(workspace, funnel_id) == []
    answer = workspace.client.get(f"/api/funnels/{funnel_id}/unit-table")
    assert parquet.read_table(BytesIO(answer.content)).num_rows == 0


@pytest.mark.parametrize(
    ("limit", "value", "expected"),
    [("MAX_UNITS", 2, (400, "too_many_units")), ("MAX_S", -1, (503, "query_timeout"))],
)
def test_a_table_has_limits_of_units_and_time(
    carts: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
    expected: tuple[int, str],
) -> None:
    path = f"/api/funnels/{new_funnel(carts)}/unit-table"
    monkeypatch.setattr(writer, limit, value)
    answer = carts.client.get(path, params={"format": "ndjson"})
    assert (answer.status_code, answer.json()["code"]) == expected
    monkeypatch.setattr(writer, limit, 3)
    assert len(carts.client.get(path, params={"format": "ndjson"}).text.splitlines()) == 3
