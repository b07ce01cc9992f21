"""Exports a funnel's report as a CSV, JSON or Parquet table.

The table has one row for the total and one for each cohort. Rows arrive from the engine in blocks
and are written block by block, so hundreds of thousands of cohorts need little memory. The file is
sent once it is complete, so a slow reader does not occupy the engine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import IO, Any

from pydantic import BaseModel

from penstock.base.clock import iso_or_none
from penstock.base.scalar import untagged
from penstock.base.table_files import Column, Figures, TableFormat, TableRow, write_rows
from penstock.base.temporary_files import NamedFile, temporary_file
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import empty_result, question_record
from penstock.funnels.queries.schema import AskedRecord, CoverageRecord
from penstock.funnels.results.schema import AggregateRecord, DataQualityRecord, ExportQuery
from penstock.funnels.results.shaping import (
    data_quality,
    identify,
    locate_diagnostics,
    read_total,
)
from penstock.funnels.results.tally import Tally, in_file
from penstock.funnels.statements import figures
from penstock.funnels.statements.report import build_export
from penstock.http.answers import file_name
from penstock.http.schema import Rate

Details = Mapping[str, Any]
"""Details of the whole report by column, such as data quality. Only the total row has them."""

_AD_HOC, _QUALITY, _COVERAGE = "asked_", "quality_", "coverage_"
"""Prefixes of the columns for what the request asked, data quality and coverage."""
_FIGURES = (
    "completed",
    "pending",
    "dropped_off",
    "excluded",
    "conversion_rate",
    "median_completion_minutes",
    "settled",
    "settled_rate",
    "early_completions",
)
"""The figures of a cohort after those of its steps. Each is a field of `AggregateRecord`."""
_STEP_FIGURES = ("count", "pending", "dropped_off", "excluded")
_TYPES: Mapping[Any, type] = {
    int: int, bool: bool, str | None: str, float | None: float, Rate | None: float,
}  # fmt: skip
"""Type of a column by type of the API field. All other fields become JSON."""


def export_funnel(
    runner: FunnelQueryRunner, context: QueryContext, query: ExportQuery
) -> NamedFile:
    """Returns a CSV, JSON or Parquet file with one row for the total and one for each cohort."""
    definition, params = context.definition, context.params
    describe = partial(_describe, runner, context)

    with temporary_file() as file:

        def write(blocks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
            file.seek(0)
            file.truncate()
            write_table(definition, blocks, describe, query.format, file)

        runner.stream(context, partial(build_export, definition, params), write)
        title = runner.funnel_name(context)
    return NamedFile(file, file_name(title, params.start_ms, params.end_ms, query.format))


def _describe(
    runner: FunnelQueryRunner, context: QueryContext, total: Mapping[str, Any]
) -> Details:
    quality = data_quality(context.definition, total, runner.count_lost_events(context))
    provenance = empty_result(context).provenance
    return {
        "definition_revision": context.revision,
        "period_start_at": iso_or_none(context.params.start_ms),
        "period_end_at": iso_or_none(context.params.end_ms),
        **_fields(_AD_HOC, question_record(context)),
        **_fields(_QUALITY, quality),
        **_fields(_COVERAGE, runner.coverage(context, provenance, total["open_windows"])),
        "receipt": runner.receipt(context),
    }


def write_table(
    definition: Definition,
    blocks: Iterable[Sequence[Mapping[str, Any]]],
    describe: Callable[[Mapping[str, Any]], Details],
    table_format: TableFormat,
    file: IO[bytes],
) -> None:
    """Write blocks of rows from `build_export` to a file.

    describe: returns the details of the report, given the figures of the total.
    """
    write_rows(
        definition.breakdown_properties,
        [*_figure_columns(definition), *_DETAILS],
        _table_rows(definition, blocks, describe),
        table_format,
        file,
        label="cohort",
    )


def _figure_columns(definition: Definition) -> list[Column]:
    columns = [Column("entered")]
    for step in range(1, len(definition.steps) + 1):
        counts = (f"step_{step}_{name}" for name in _STEP_FIGURES)
        columns += [Column(f"step_{step}_name", str), *map(Column, counts)]
        columns += [Column(f"step_{step}_row_count")] * definition.in_any_order
    columns += _columns("", AggregateRecord, _FIGURES)
    for number in range(1, len(definition.diagnostics) + 1):
        row = f"diagnostic_{number}_"
        columns += [Column(f"{row}name", str), Column(f"{row}where", str)]
        columns += [Column(f"{row}units"), Column(f"{row}events")]
    return columns


def _columns(
    prefix: str, record: type[BaseModel], names: Iterable[str] | None = None
) -> list[Column]:
    """Return the columns for fields of a record, by default for all."""
    fields = record.model_fields
    return [
        Column(prefix + name, _TYPES.get(fields[name].annotation, dict)) for name in names or fields
    ]


def _fields(prefix: str, record: BaseModel) -> Details:
    values = record.model_dump(mode="json").values()
    return {
        prefix + name: value for name, value in zip(type(record).model_fields, values, strict=True)
    }


_DETAILS = [
    Column("definition_revision"),
    Column("period_start_at", str),
    Column("period_end_at", str),
    *_columns(_AD_HOC, AskedRecord),
    *_columns(_QUALITY, DataQualityRecord),
    *_columns(_COVERAGE, CoverageRecord),
    Column("receipt", str),
]
_NO_DETAILS = [None] * len(_DETAILS)


def _table_rows(
    definition: Definition,
    blocks: Iterable[Sequence[Mapping[str, Any]]],
    describe: Callable[[Mapping[str, Any]], Details],
) -> Iterator[list[TableRow]]:
    """Yield table rows, block by block, with a total even if there are no entries."""

    def total(row: Mapping[str, Any]) -> TableRow:
        details = describe(row)
        return None, [*_figures(definition, row), *(details.get(name) for name, _ in _DETAILS)]

    is_empty = True
    for block in blocks:
        is_empty = False
        named = [{**row, **figures.read(definition, row)} for row in block]
        yield [
            total(row)
            if row["is_total"]
            else (
                [untagged(text) for text in row["texts"]],
                [*_figures(definition, row), *_NO_DETAILS],
            )
            for row in named
        ]
    if is_empty:
        yield [total(read_total(definition, []))]


def _figures(definition: Definition, row: Mapping[str, Any]) -> Figures:
    """Return the figures of a cohort or the total.

    row: its columns and figures, by name.
    """
    tally = Tally.of_steps(row)
    columns: list[Any] = [tally.entered]
    options = iter(row["options"])
    for step, counted in zip(definition.steps, tally.by_step(), strict=True):
        columns += [_name(identify(step)), *(getattr(counted, name) for name in _STEP_FIGURES)]
        of_row = sum(islice(options, len(step.matches)))
        columns += [of_row] * definition.in_any_order
    columns += (in_file(name, getattr(tally, name)) for name in _FIGURES)
    for diagnostic, units, events in zip(
        locate_diagnostics(definition),
        row["seen_units"],
        row["seen_events"],
        strict=True,
    ):
        columns += [_name(diagnostic), diagnostic["where"], units, events]
    return columns


def _name(row: Mapping[str, Any]) -> str:
    """Return the name of a row or, if it has none, its value."""
    return str(row["name"] or row["value"])
