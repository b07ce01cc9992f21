"""Wire types for imports."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from penstock.base.errors import Fault, PenstockError
from penstock.base.event_limits import MAX_EVENT_BYTES, MAX_PROPERTY_DEPTH, MAX_PROPERTY_KEYS
from penstock.base.wording import listed
from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.model import ImportJob, ImportState, Reject
from penstock.events.schema import FaultRecord, WarningRecord
from penstock.http.bodies import parse_model
from penstock.http.period import known_timezone
from penstock.http.schema import Iso, Label, Query, Record, RuleBroken, RulesBroken

WARNINGS = {
    "timestamp_looks_like_seconds": "Some timestamps are numbers below 100,000,000,000, so they "
    "look like seconds. An earlier version read them as milliseconds, as times in the 1970s.",
    "id_was_a_number": "Some IDs are numbers. They were stored as their decimal text.",
    "country_not_iso": "Some lines have a country that is not a two-letter code of ISO 3166-1, "
    "such as DE. It was stored as sent.",
    "repeated_hour": "Some local times are in an hour that occurs twice, because clocks were set "
    "back. The order of the lines decides between the two where it can; otherwise, the first one "
    "counts.",
    "missing_hour": "Some local times are in an hour that never occurs, because clocks were set "
    "forward. They were read as an hour later. Check the time zone.",
    "text_cut": "Some texts were longer than their limit, such as a URL or a title over 8 KB. They "
    "were cut, and the character … marks the cut.",
    "nul_removed": "Some texts had NUL characters, which were left out.",
    "integer_as_text": "Some integers were beyond 64 bits. They were stored as their decimal text.",
    "nested_as_text": f"Some properties had parts below {MAX_PROPERTY_DEPTH} levels, or more than "
    f"{MAX_PROPERTY_KEYS} keys. Such parts were stored as JSON text.",
    "keys_left_out": f"Some events had more than {MAX_PROPERTY_KEYS} property keys. Feature flags "
    "($feature/...) were left out first, and then the last keys of the event.",
    "values_left_out": f"Some events were larger than {MAX_EVENT_BYTES // 1024} KB. Their largest "
    "properties were left out.",
}
"""Messages for warnings about a file's events, by code."""

_FORMATS = tuple(reader.name for reader in READERS)


def _known_format(name: str | None) -> str | None:
    if name is None or name in _FORMATS:
        return name
    raise RuleBroken("unknown_value", f"Must be {listed(_FORMATS, 'or')}.")


_MAX_MAPPING_CHARS = 30_000
"""Maximum length of a mapping in a URL. A longer one would exceed the limit of a request's head."""


def _mapping_of_text(text: Any) -> CompleteMapping | None:
    """Parse the JSON text of a mapping. Raises `RulesBroken` with its faults."""
    if not isinstance(text, str):
        return None
    if len(text) > _MAX_MAPPING_CHARS:
        message = (
            f"Must have at most {_MAX_MAPPING_CHARS:,} characters. Use otherColumns for columns "
            "with the same use."
        )
        raise RuleBroken("too_long", message)
    try:
        return parse_model(text.encode("utf-8", "replace"), CompleteMapping)
    except PenstockError as error:
        raise RulesBroken(error.faults or [Fault("", error.code, error.detail)]) from None


class ImportQuery(Query):
    """The destination and format of an import."""

    website_id: str
    """The website or app that the events belong to."""
    file_name: Label | None = None
    """Name of the file, shown in the list of imports."""
    dry_run: bool = False
    """true reads the file without storing an event of it. The import then waits in the state
    `checked` until it is started, for at most 24 hours.
    """
    format: Annotated[
        str | None,
        AfterValidator(_known_format),
        WithJsonSchema({"type": "string", "enum": list(_FORMATS)}),
        Field(
            description="Format of the file; by default, the one of the Content-Type. "
            + ". ".join(f"`{reader.name}` is {reader.description}" for reader in READERS)
            + "."
        ),
    ] = None

    mapping: Annotated[
        CompleteMapping | None,
        BeforeValidator(_mapping_of_text),
        WithJsonSchema({"type": "string"}),
    ] = None
    """The uses of the columns of a CSV or Parquet file, or of the paths of JSON lines, as the JSON
    text of an `ImportMapping`.
    """
    mapping_id: str | None = None
    """A saved mapping to use instead of `mapping`."""
    timezone: Annotated[str, Field(max_length=64), AfterValidator(known_timezone)] | None = None
    """Time zone of times without an offset in a file of another product, such as `Europe/Berlin`.
    Default: UTC. For `mixpanel`, the time zone of the project.
    """

    @field_validator("mapping_id")
    @classmethod
    def _names_one_mapping(cls, mapping_id: str | None, info: ValidationInfo[Any]) -> str | None:
        if mapping_id is not None and info.data.get("mapping") is not None:
            raise RuleBroken("not_both", "Send either mapping or mappingId.")
        return mapping_id


class ImportWarningRecord(WarningRecord):
    """A warning about lines of a file."""

    lines: int | None
    """Lines with this warning. Null if an earlier version imported the file."""


def warning_records(lines: Mapping[str, int | None]) -> tuple[ImportWarningRecord, ...]:
    """Describe the warnings of a file, in the order of their codes. lines: lines by code."""
    return tuple(
        ImportWarningRecord(code=code, message=WARNINGS[code], lines=lines[code])
        for code in sorted(lines)
    )


class ListedImportRecord(Record):
    """An import and its progress, as in a list."""

    id: str
    website_id: str
    state: ImportState
    format: str
    file_name: str | None
    sha256: str
    """Hash of the file as it was sent."""
    bytes_total: int
    """Size of the file as it was sent."""
    bytes_read: int
    """How much of the file has been read, by the dry run or the import."""
    lines_read: int
    """Lines read so far, including empty lines."""
    empty_lines: int
    """Empty lines, which were skipped."""
    identify_lines: int
    """Lines that link visitors to a user, without an event."""
    ignored_lines: int
    """Lines with nothing that Penstock stores, such as a Segment `group` call."""
    identity_conflicts: int
    """Lines whose visitor belongs to another user, so that nothing was merged."""
    accepted: int
    duplicates: int
    """Lines whose event was stored before."""
    rejected: int
    """Rejected lines. `rejects` lists the first 10,000."""
    first_event_at: Iso | None
    """Time of the earliest event in the part of the file that has been read."""
    last_event_at: Iso | None
    revision: int
    """Rises from 1 with each change of the mapping."""
    timezone: str | None
    """The `timezone` of the request. Null without one."""
    is_undoable: bool
    """Whether the import can be undone once it is finished."""
    undo_id: str | None
    """The deletion that undoes the import."""
    missing_lines: int
    """Lines that were dropped as duplicates of imports that were undone since. Import the file
    again.
    """
    error: str | None
    """Why the import failed. Events that were stored before that are kept."""
    warnings: Annotated[
        tuple[ImportWarningRecord, ...],
        Field(description="What is unusual in its events, and what did not fit."),
    ]
    expires_at: Iso | None
    """When the file is removed, unless the import is started before. Null if the import does not
    wait for its start.
    """
    gap_dismissed_at: Iso | None
    """When an owner dismissed the gap in the coverage of reports."""
    created_at: Iso
    updated_at: Iso
    finished_at: Iso | None

    @classmethod
    def from_job(cls, job: ImportJob) -> Self:
        return cls.from_object(job, warnings=warning_records(job.warning_counts))


class ImportRecord(ListedImportRecord):
    """An import and its progress."""

    mapping: ImportMapping | None
    """The uses of the file's columns. Null without a mapping."""


class RejectRecord(Record):
    """A rejected line."""

    line: int
    """Line number, from 1."""
    errors: tuple[FaultRecord, ...]
    excerpt: str | None
    """An excerpt of the line, without secrets and network addresses. Null if the line is over the
    size limit or comes after the first 1,000 rejected lines.
    """

    @classmethod
    def from_reject(cls, reject: Reject) -> Self:
        return cls.from_object(reject, errors=reject.faults)
