"""Writes all counted units of a funnel to a file, one row each.

Units arrive from the engine in blocks and wait in a temporary file, because their names come from
further statements. So a long table needs little memory, and no statement waits for another.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any

from msgspec import json

from penstock.base.errors import Malformed, Unavailable
from penstock.base.row_files import Cell, Row, write_rows
from penstock.base.temporary_files import NamedFile, temporary_file
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.runs import RUN_COLUMNS
from penstock.funnels.statements.units import all_units
from penstock.funnels.units.schema import UnitTableQuery
from penstock.funnels.units.service import entry_values, names_of, read_state

MAX_UNITS = 5_000_000
"""Maximum number of units in a table."""
MAX_S = 3600
"""Time limit for writing a table in seconds, as for other exports."""
_NAMES_AT_ONCE = 20_000
"""Number of units whose names are read by one statement."""
_NEEDED = ("unit", "entry_ts", "reached", "window_end", "excluded_after", "done", "texts")


def export_unit_table(
    runner: FunnelQueryRunner, context: QueryContext, query: UnitTableQuery
) -> NamedFile:
    """Returns a Parquet or NDJSON file with a row for each attempt or visitor of the report.

    A row has the entry, the cohort, the outcome and the time of each completed step. A file has at
    most 5,000,000 units, and is written within an hour.
    """
    until_s = monotonic() + MAX_S
    with TemporaryFile() as spool:
        save = partial(_save, context.definition, spool)
        runner.stream(context, lambda profile: all_units(context.counted(profile)), save)
        spool.seek(0)
        with temporary_file() as file:
            blocks = _named(runner, context, spool, until_s)
            write_rows(_columns(context.definition), blocks, query.format, file)
    return NamedFile(file, f"units.{query.format}")


def _named(
    runner: FunnelQueryRunner, context: QueryContext, spool: IO[bytes], until_s: float
) -> Iterator[Sequence[Row]]:
    """Yield rows with names. Raises Unavailable if writing takes too long."""
    while lines := list(islice(spool, _NAMES_AT_ONCE)):
        if monotonic() > until_s:
            raise Unavailable(
                f"Writing the table took longer than {MAX_S // 60} minutes. Choose a shorter "
                "period, one website or one cohort.",
                code="query_timeout",
            )
        units = [json.decode(line) for line in lines]
        names = names_of(runner, context, units)
        yield [_row(context, unit, names.by_unit.get(unit["unit"], "")) for unit in units]


def _save(definition: Definition, spool: IO[bytes], blocks: RowBlocks) -> None:
    needed = (*_NEEDED, *RUN_COLUMNS) if definition.repeat else _NEEDED
    spool.seek(0)
    spool.truncate()
    units = 0
    for rows in blocks:
        units += len(rows)
        if units > MAX_UNITS:
            raise Malformed(
                f"The table has more than {MAX_UNITS:,} units, the most that a file can have. "
                "Choose a shorter period, one website or one cohort.",
                code="too_many_units",
            )
        spool.writelines(json.encode({name: row[name] for name in needed}) + b"\n" for row in rows)


def _columns(definition: Definition) -> dict[str, Cell]:
    steps = range(1, len(definition.steps) + 1)
    return {
        "unit": Cell.TEXT,
        "entry_at": Cell.TIME,
        "cohort": Cell.JSON,
        "outcome": Cell.TEXT,
        "reached": Cell.NUMBER,
        **{f"step_{step}_at": Cell.TIME for step in steps},
        "excluded_at": Cell.TIME,
        "window_ends_at": Cell.TIME,
        "evaluated_at": Cell.TIME,
    }


def _row(context: QueryContext, unit: Mapping[str, Any], name: str) -> Row:
    definition, evaluated_at_ms = context.definition, context.params.evaluated_at_ms
    state = read_state(context, unit)
    done = [*unit["done"][: unit["reached"]], *[None] * len(definition.steps)]
    return {
        "unit": name,
        "entry_at": unit["entry_ts"],
        "cohort": entry_values(definition, unit),
        "outcome": state.outcome,
        "reached": unit["reached"],
        **{f"step_{step}_at": done[step - 1] for step in range(1, len(definition.steps) + 1)},
        "excluded_at": state.excluded_ms,
        "window_ends_at": state.window_end_ms,
        "evaluated_at": evaluated_at_ms,
    }
