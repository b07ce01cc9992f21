"""Writes the visitors of a saved cohort to a CSV, JSON or Parquet file."""

from collections.abc import Iterator

from penstock.base.chunks import chunks
from penstock.base.ids import WorkspaceId
from penstock.base.table_files import Column, TableFormat, TableRow, write_rows
from penstock.base.temporary_files import NamedFile, temporary_file
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.http.answers import file_name

_COLUMNS = ("visitor_id", "user_id", "website_id")
_ROWS_PER_BLOCK = 10_000


def export_visitors(
    cohorts: SavedCohortService,
    workspace_id: WorkspaceId,
    cohort_id: str,
    table_format: TableFormat,
) -> NamedFile:
    """Write all visitors of a cohort. Blocks, and raises the same errors as
    `SavedCohortService.all_visitors`.
    """
    cohort, visitors = cohorts.all_visitors(workspace_id, cohort_id)
    blocks: Iterator[list[TableRow]] = (
        [([], [getattr(visitor, name) for name in _COLUMNS]) for visitor in share]
        for share in chunks(visitors, _ROWS_PER_BLOCK)
    )
    columns = [Column(name, str) for name in _COLUMNS]
    with temporary_file() as file:
        write_rows([], columns, blocks, table_format, file, label="visitor")
    return NamedFile(file, file_name(f"{cohort.name} visitors", None, None, table_format))
