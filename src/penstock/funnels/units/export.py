"""Writes a whole list of units to a CSV, JSON or Parquet file."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from penstock.base.chunks import chunks
from penstock.base.errors import Malformed
from penstock.base.table_files import Column, TableRow, write_rows
from penstock.base.temporary_files import NamedFile, temporary_file
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.runs import RUN_COLUMNS
from penstock.funnels.statements.units import units_page
from penstock.funnels.units.schema import UnitExportQuery, UnitRecord
from penstock.funnels.units.service import (
    read_details,
    unit_conditions,
    unit_order,
    unit_record,
)
from penstock.http.answers import file_name

MAX_UNITS = 100_000
"""Maximum number of units in a file."""
_UNITS_PER_READ = 10_000
"""Number of units whose names one statement reads."""

_COLUMNS = {
    "unit": str,
    "user_id": str,
    "person": str,
    "entry_at": str,
    "window_ends_at": str,
    "reached": int,
    "outcome": str,
    "completed_at": str,
    "excluded_at": str,
    "last_activity_at": str,
    "sequence_skips": int,
    "unordered_ties": int,
    "assumed_order": int,
    "invalid_sequence_values": int,
    "tied_entry": bool,
    "conflicting_entry_values": dict,
    "several_visitors": bool,
    "coarse_times": int,
}
"""Columns of a file and their types. Each is a field of `UnitRecord`."""


_READ = (
    "unit", "entry_ts", "done_ts", "window_end", "reached", "excluded_after", "texts", "skips",
    "ties", "assumed", "invalid", "tied", "conflicts", "several", "coarse",
)  # fmt: skip
"""Columns of `units_page` that `unit_record` reads. For a run, it also reads `RUN_COLUMNS`."""


def export_units(
    runner: FunnelQueryRunner, context: QueryContext, query: UnitExportQuery
) -> NamedFile:
    """Returns a CSV, JSON or Parquet file with a row for each unit of the list, on all pages.

    At most 100,000 units.
    """
    conditions = unit_conditions(runner, context, query)
    columns = _columns_of(context.definition)
    rows: list[tuple[Any, ...]] = []  # Tuples take a third of the memory of dictionaries.

    def read(blocks: RowBlocks) -> None:
        rows.clear()
        for block in blocks:
            _check_total(block[0]["total"] if block else 0)
            rows.extend(map(itemgetter(*columns), block))

    runner.stream(
        context,
        lambda profile: units_page(
            context.counted(profile), conditions, unit_order(query), None, MAX_UNITS
        ),
        read,
    )
    title = f"{runner.funnel_name(context)} {context.definition.unit_word}s"
    with temporary_file() as file:
        write_rows(
            context.definition.breakdown_properties,
            [Column(name, column_type) for name, column_type in _COLUMNS.items()],
            map(partial(_block, runner, context), chunks(rows, _UNITS_PER_READ)),
            query.format,
            file,
            label="unit",
        )
    params = context.params
    return NamedFile(file, file_name(title, params.start_ms, params.end_ms, query.format))


def _block(
    runner: FunnelQueryRunner, context: QueryContext, values: Sequence[tuple[Any, ...]]
) -> list[TableRow]:
    columns = _columns_of(context.definition)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    details = read_details(runner, context, rows)
    return list(_table_rows(unit_record(context, row, details) for row in rows))


def _columns_of(definition: Definition) -> tuple[str, ...]:
    return (*_READ, *RUN_COLUMNS) if definition.repeat else _READ


def _table_rows(records: Iterator[UnitRecord]) -> Iterator[TableRow]:
    for record in records:
        yield list(record.cohort.values()), [getattr(record, name) for name in _COLUMNS]


def _check_total(total: int) -> None:
    if total > MAX_UNITS:
        raise Malformed(
            f"The list has {total:,} units, and a file at most {MAX_UNITS:,}. Choose a shorter "
            "period, one step or outcome, or a filter.",
            code="too_many_units",
        )
