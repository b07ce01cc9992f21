"""Wire types for exports."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock.base.row_files import RowFormat
from penstock.http.schema import Query, Record


class DailyTable(StrEnum):
    """A table that is exported by day."""

    EVENTS = "events"
    CLICKS = "clicks"


Website = Annotated[str, Field(description="A website or app of the workspace.")]
FileFormat = Annotated[RowFormat, Field(description="Format of the file.")]
Table = Annotated[DailyTable, Field(description="Events, or clicks on managed links.")]


class DaysQuery(Query):
    website_id: Website
    table: Table = DailyTable.EVENTS


class DayRecord(Record):
    """A day with rows of a table."""

    day: Annotated[str, Field(description="Day in UTC, such as 2026-11-27.")]
    rows: int
    fingerprint: Annotated[
        str, Field(description="Changes when rows of this day are added or deleted.")
    ]


class DaysRecord(Record):
    """The days of a website, oldest first."""

    data: list[DayRecord]


class DayQuery(DaysQuery):
    day: Annotated[date, Field(description="Day in UTC, such as 2026-11-27.")]
    format: FileFormat = RowFormat.PARQUET


class IdentitiesQuery(Query):
    website_id: Website
    format: FileFormat = RowFormat.PARQUET
