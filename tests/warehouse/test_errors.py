"""Errors of the event store reach the rest of the service in its own terms."""

from pathlib import Path

import pytest

from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on
from tests.recording_warehouse import MUCH_MEMORY, TWO_SECONDS

UNKNOWN_TABLE = 60


def test_a_refused_statement_has_the_code_of_the_engine(warehouse: Warehouse) -> None:
    with pytest.raises(QueryFailed) as raised:
        warehouse.query("SELECT * FROM nowhere")
    assert raised.value.code == UNKNOWN_TABLE
    with pytest.raises(QueryFailed):
        warehouse.command("ALTER TABLE nowhere DELETE WHERE 1")
    with pytest.raises(QueryFailed):
        warehouse.insert_json_rows("nowhere", b"{}", ["id"], "token")


def test_a_server_that_refuses_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        Warehouse(data=tmp_path, url="http://127.0.0.1:1/none")
    assert raised.value.code == "warehouse_unavailable"
    assert "127.0.0.1" in raised.value.reason
    assert "127.0.0.1" not in raised.value.detail


@pytest.mark.parametrize(
    ("limits", "statement", "code"),
    [
        ({"max_execution_time": 0.2}, TWO_SECONDS, "query_timeout"),
        ({"max_memory_usage": 10_000_000}, MUCH_MEMORY, "query_too_large"),
    ],
)
def test_the_error_names_the_exceeded_limit(
    warehouse: Warehouse, limits: dict[str, float], statement: str, code: str
) -> None:
    with working_on(Work(limits)), pytest.raises(Unavailable) as raised:
        warehouse.fetch_rows(statement, {})
    assert raised.value.code == code


def test_stopped_work_runs_no_statement(warehouse: Warehouse) -> None:
    work = Work()
    warehouse.stop(work)
    with working_on(work), pytest.raises(Stopped):
        warehouse.query("SELECT 1")
