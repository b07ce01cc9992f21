"""Writes a whole list of units to a CSV, JSON or Parquet file."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import IO, Any

from penstock.base.chunks import chunks
from penstock.base.errors import Malformed
from penstock.base.ids import WorkspaceId
from penstock.base.temporary_files import NamedFile, temporary_file
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.results.tables import Column, Format, TableRow, write_rows
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.runs import RUN_COLUMNS
from penstock.funnels.statements.units import units_page
from penstock.funnels.units.schema import UnitExportQuery, UnitRecord
from penstock.funnels.units.service import UnitService, unit_conditions, unit_order, unit_record
from penstock.http.answers import file_name

MAX_UNITS = 100_000
"""Maximum number of units in a file."""
_UNITS_PER_READ = 10_000
"""Number of units whose names one statement reads."""

_COLUMNS = {
    "unit": str,
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


class UnitExporter:
    """Writes lists of units to files. Methods block: call them from a worker thread."""

    def __init__(
        self, runner: FunnelQueryRunner, funnels: FunnelService, units: UnitService
    ) -> None:
        self._runner, self._funnels, self._units = runner, funnels, units

    def export(
        self, workspace_id: WorkspaceId, funnel_id: str, query: UnitExportQuery
    ) -> NamedFile:
        """Write all units of a list.

        Raises Malformed if there are too many units or if a parameter does not fit the funnel, and
        the same errors as `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._runner.prepare(workspace_id, source, query.selection())
        conditions = unit_conditions(self._runner, context, query)
        columns = _columns_of(context.definition)
        rows: list[tuple[Any, ...]] = []  # Tuples take a third of the memory of dictionaries.

        def read(blocks: RowBlocks) -> None:
            rows.clear()
            for block in blocks:
                _check_total(block[0]["total"] if block else 0)
                rows.extend(map(itemgetter(*columns), block))

        self._runner.stream(
            context,
            lambda profile: units_page(
                CountedUnits(context.definition, context.params, profile),
                conditions,
                unit_order(query),
                None,
                MAX_UNITS,
            ),
            read,
        )
        title = self._funnels.get(workspace_id, funnel_id).name
        with temporary_file() as file:
            self._write(context, rows, Format(query.format), file)
        params = context.params
        title = f"{title} {context.definition.unit_word}s"
        name = file_name(title, params.start_ms, params.end_ms, query.format)
        return NamedFile(file, name)

    def _write(
        self,
        context: QueryContext,
        rows: Sequence[tuple[Any, ...]],
        table_format: Format,
        file: IO[bytes],
    ) -> None:
        columns = [Column(name, column_type) for name, column_type in _COLUMNS.items()]
        properties = context.definition.breakdown_properties
        blocks = map(partial(self._block, context), chunks(rows, _UNITS_PER_READ))
        write_rows(properties, columns, blocks, table_format, file, label="unit")

    def _block(self, context: QueryContext, values: Sequence[tuple[Any, ...]]) -> list[TableRow]:
        columns = _columns_of(context.definition)
        rows = [dict(zip(columns, row, strict=True)) for row in values]
        details = self._units.details(context, rows)
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
