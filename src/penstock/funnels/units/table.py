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
from penstock.base.ids import WorkspaceId
from penstock.base.row_files import Cell, Row, write_rows
from penstock.base.scalar import untagged
from penstock.base.temporary_files import temporary_file
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import DataProfile, Statement
from penstock.funnels.statements.runs import RUN_COLUMNS
from penstock.funnels.statements.units import Outcome, all_units
from penstock.funnels.units.schema import UnitTableQuery
from penstock.funnels.units.service import UnitService, outcome_of

MAX_UNITS = 5_000_000
"""Maximum number of units in a table."""
MAX_S = 3600
"""Time limit for writing a table in seconds, as for other exports."""
_NAMES_AT_ONCE = 20_000
"""Number of units whose names are read by one statement."""
_NEEDED = ("unit", "entry_ts", "reached", "window_end", "excluded_after", "done", "texts")


class UnitTableWriter:
    """Writes tables of units. Methods block: call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner, units: UnitService) -> None:
        self._runner, self._units = runner, units

    def write(self, workspace_id: WorkspaceId, funnel_id: str, query: UnitTableQuery) -> IO[bytes]:
        """Write the table to a temporary file. The caller closes it.

        Raises Malformed if there are too many units, Unavailable if writing takes too long, and the
        same errors as `FunnelQueryRunner.prepare`.
        """
        until_s = monotonic() + MAX_S
        source = SavedFunnel(funnel_id, query.revision)
        context = self._runner.prepare(workspace_id, source, query.selection())
        with TemporaryFile() as spool:
            save = partial(_save, context.definition, spool)
            self._runner.stream(context, partial(_statement, context), save)
            spool.seek(0)
            with temporary_file() as file:
                blocks = self._named(context, spool, until_s)
                write_rows(_columns(context.definition), blocks, query.format, file)
        return file

    def _named(
        self, context: QueryContext, spool: IO[bytes], until_s: float
    ) -> Iterator[Sequence[Row]]:
        while lines := list(islice(spool, _NAMES_AT_ONCE)):
            if monotonic() > until_s:
                raise Unavailable(
                    f"Writing the table took longer than {MAX_S // 60} minutes. Choose a shorter "
                    "period, one website or one cohort.",
                    code="query_timeout",
                )
            units = [json.decode(line) for line in lines]
            names = self._units.names_of(context, units)
            yield [_row(context, unit, names.by_unit.get(unit["unit"], "")) for unit in units]


def _statement(context: QueryContext, profile: DataProfile) -> Statement:
    return all_units(CountedUnits(context.definition, context.params, profile))


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
    window_end_ms = None if definition.window_s is None else unit["window_end"]
    is_excluded = unit["excluded_after"] >= 0
    outcome: Outcome = outcome_of(
        definition, unit["reached"], window_end_ms, evaluated_at_ms, is_excluded=is_excluded
    )
    done = [*unit["done"][: unit["reached"]], *[None] * len(definition.steps)]
    return {
        "unit": name,
        "entry_at": unit["entry_ts"],
        "cohort": dict(
            zip(definition.breakdown_properties, map(untagged, unit["texts"]), strict=True)
        ),
        "outcome": outcome,
        "reached": unit["reached"],
        **{f"step_{step}_at": done[step - 1] for step in range(1, len(definition.steps) + 1)},
        "excluded_at": unit["entry_ts"] + unit["excluded_after"] if is_excluded else None,
        "window_ends_at": window_end_ms,
        "evaluated_at": evaluated_at_ms,
    }
