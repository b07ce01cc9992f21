"""Wire types for exports."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Field

from penstock.base.row_files import RowFormat
from penstock.exports.model import Export
from penstock.http.schema import Input, Iso, Query, Record, RuleBroken, without_controls


class DailyTable(StrEnum):
    """A table that is exported by day."""

    EVENTS = "events"
    CLICKS = "clicks"


Website = Annotated[str, Field(description="A website or app of the workspace.")]
FileFormat = Annotated[RowFormat, Field(description="Format of the file.")]
Table = Annotated[DailyTable, Field(description="Events, or clicks on managed links.")]


def _without_secrets(text: str) -> str:
    """Validator: reduce a URL to its scheme, host, port and path; reject a user and password.

    A query or a fragment can be a signature. The names of folders stay as they are.
    """
    user = text.partition("@")[0]
    is_url = "://" in text or text.startswith("//")
    if user != text and (is_url or (":" in user and "/" not in user)):
        raise RuleBroken("has_credentials", "Leave out the user name and password.")
    if not is_url:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        raise RuleBroken("not_a_url", "Must be the name of a folder, or a URL.") from None
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


Destination = Annotated[
    str,
    Field(
        min_length=1,
        max_length=500,
        description="Name of the folder or bucket that receives the files, without any secret.",
    ),
    AfterValidator(without_controls),
    AfterValidator(_without_secrets),
]


class ExportIn(Input):
    """The start of an export."""

    destination: Destination
    destination_id: Annotated[
        str | None,
        Field(min_length=1, max_length=100),
        AfterValidator(lambda value: value if value is None else without_controls(value)),
    ] = None
    """ID that stays with the files when they move or the destination gets another name. Default:
    the destination itself.
    """
    format: FileFormat = RowFormat.PARQUET


class ExportRecord(Record):
    """An export of the workspace that a client began."""

    id: str
    destination: str
    destination_id: str
    """Equal to `destination` if the client sent no ID."""
    format: FileFormat
    exported_by: str
    """Email address, or name of the API key."""
    first_day: str | None
    """First day of its events, in UTC."""
    last_day: str | None
    """Last day of its events, in UTC."""
    started_at: Iso
    finished_at: Iso | None
    """Null while it runs, and after it was interrupted."""

    @classmethod
    def from_export(cls, export: Export) -> Self:
        return cls.from_object(export, format=export.file_format)


class _TableQuery(Query):
    website_id: Website
    table: Table = DailyTable.EVENTS


class DaysQuery(_TableQuery):
    export_id: str | None = None
    """The export that will contain these days."""


class DayRecord(Record):
    """A day with rows of a table."""

    day: str
    """Day in UTC, such as 2026-11-27."""
    rows: int
    fingerprint: str
    """Changes when rows of this day are added or deleted."""


class DaysRecord(Record):
    """The days of a website, oldest first."""

    data: list[DayRecord]


class DayQuery(_TableQuery):
    day: date
    """Day in UTC, such as 2026-11-27."""
    format: FileFormat = RowFormat.PARQUET


class IdentitiesQuery(Query):
    website_id: Website
    format: FileFormat = RowFormat.PARQUET
