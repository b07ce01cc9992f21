"""A funnel's report as a table: CSV, JSON or Parquet. Columns: contract, "Funnels".

One row for the total and one for every cohort. The engine's rows arrive in blocks and are written
to a file block by block, so that hundreds of thousands of cohorts need little memory. The file is
sent when it is complete, so that a slow reader does not occupy the engine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

from penstock.base.ids import WorkspaceId
from penstock.base.rates import rate
from penstock.base.scalar import untagged
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.pipeline import FunnelQueryRunner
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.results.schema import ExportQuery
from penstock.funnels.results.shaping import MS_PER_MINUTE, total_of
from penstock.funnels.results.tables import Figures, Format, TableRow, write_rows
from penstock.funnels.statements import figures
from penstock.funnels.statements.report import build_export


class ReportExporter:
    """Writes reports to files. Methods block: call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner) -> None:
        self._runner = runner

    def export(self, workspace_id: WorkspaceId, funnel_id: str, query: ExportQuery) -> IO[bytes]:
        """The complete table in an open temporary file, at its start.

        Errors as of `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._runner.prepare(workspace_id, source, query.selection())
        build_statement = partial(build_export, context.definition, context.params)
        file = TemporaryFile()  # noqa: SIM115 - the caller closes it

        def write(blocks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
            file.seek(0)
            file.truncate()
            write_table(context.definition, blocks, Format(query.format), file)

        try:
            self._runner.stream(context, build_statement, write)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file


def write_table(
    definition: Definition,
    blocks: Iterable[Sequence[Mapping[str, Any]]],
    table_format: Format,
    file: IO[bytes],
) -> None:
    """Write the rows of `build_export`, which come in blocks, to a file."""
    write_rows(
        definition.breakdown_properties,
        figure_names(definition),
        _table_rows(definition, blocks),
        table_format,
        file,
    )


def figure_names(definition: Definition) -> list[str]:
    names = ["entered"]
    for step in range(1, len(definition.steps) + 1):
        names += [f"step_{step}_count", f"step_{step}_pending", f"step_{step}_dropped_off"]
    return [
        *names,
        "completed",
        "pending",
        "dropped_off",
        "conversion_rate",
        "median_completion_minutes",
    ]


def _table_rows(
    definition: Definition, blocks: Iterable[Sequence[Mapping[str, Any]]]
) -> Iterator[list[TableRow]]:
    """The rows block by block, with a total even without entries."""
    is_empty = True
    for block in blocks:
        is_empty = False
        yield [
            (
                None if row["is_total"] else [untagged(text) for text in row["texts"]],
                _figures(definition, row),
            )
            for row in block
        ]
    if is_empty:
        yield [(None, _figures(definition, total_of(definition, [])))]


def _figures(definition: Definition, row: Mapping[str, Any]) -> Figures:
    named = figures.read(definition, row)
    counts, pendings = named["counts"], [*named["pendings"], 0]
    dropped = [*(counts[k] - counts[k + 1] - pendings[k] for k in range(len(counts) - 1)), 0]
    columns: list[int | float | None] = [counts[0]]
    for step in zip(counts, pendings, dropped, strict=True):
        columns += step
    median = row["median_ms"] / MS_PER_MINUTE if counts[-1] else None
    return [*columns, counts[-1], sum(pendings), sum(dropped), rate(counts[-1], counts[0]), median]
