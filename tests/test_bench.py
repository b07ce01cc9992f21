"""The benchmark measures what it says: rows as the intake has them, equal counts elsewhere."""

import json
import sqlite3
from pathlib import Path

import pytest
from bench.data import WEBSITE_ID, Dataset, insert
from bench.markdown import table_lines
from bench.model import Column, Table
from bench.other_engines import bare_window_funnels, self_join

from penstock.base.scalar import property_columns
from penstock.warehouse.client import Warehouse

_ROWS = """
SELECT name, event_id, visitor_id, occurred_at, properties, scalars, hashes,
       scalars.attemptId.:String, toUnixTimestamp64Milli(occurred_at)
FROM events WHERE website_id = {website:String}"""


@pytest.fixture
def rows(warehouse: Warehouse, tmp_path: Path) -> list[tuple]:
    if warehouse.folder is None:
        pytest.skip("the benchmark fills the embedded engine")
    warehouse.command("DELETE FROM events WHERE website_id = {w:String}", {"w": WEBSITE_ID})
    counts = insert(warehouse, Dataset(6, 900, block_events=300), WEBSITE_ID, tmp_path)
    rows = warehouse.query(_ROWS, {"website": WEBSITE_ID})[1]
    assert len(rows) == counts.events
    assert sum(row[0].startswith("step") for row in rows) == counts.step_events
    assert len({row[7] for row in rows}) == counts.attempts
    return rows


def test_properties_are_stored_as_the_intake_stores_them(rows: list[tuple]) -> None:
    assert any("plan" not in json.loads(row[4]) for row in rows)
    for row in rows:
        assert property_columns(json.loads(row[4])) == {"scalars": row[5], "hashes": row[6]}


def test_self_joins_count_what_a_window_funnel_counts(
    rows: list[tuple], warehouse: Warehouse
) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE events (attempt TEXT, name TEXT, ms BIGINT)")
    events = [(row[7], row[0], row[8]) for row in rows if row[0].startswith("step")]
    connection.executemany("INSERT INTO events VALUES (?, ?, ?)", events)
    joined = connection.execute(self_join()).fetchone()
    for query in bare_window_funnels(warehouse).values():
        levels = dict(query()[1])
        reached = [sum(levels.get(k, 0) for k in range(step, 7)) for step in range(1, 7)]
        assert reached == list(joined)


def test_a_table_is_written_with_its_units_and_without_what_is_missing() -> None:
    columns = (Column("query"), Column("seconds", 2), Column("events", 0))
    table = Table("Title", columns, [["direct", 1.234, 1234567], ["stored", None, 5]])
    assert list(table_lines(table)) == [
        "| query | seconds | events |",
        "|---|---:|---:|",
        "| direct | 1.23 | 1,234,567 |",
        "| stored |  | 5 |",
        "",
    ]
