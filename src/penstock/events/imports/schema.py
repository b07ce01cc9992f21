"""Wire types for imports."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from penstock.base.clock import iso, iso_or_none
from penstock.base.errors import Fault, PenstockError
from penstock.base.wording import listed
from penstock.events.imports.dry_run import EventKey, Summary
from penstock.events.imports.formats.reader import Sample
from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.model import ImportJob, ImportState, Reject
from penstock.events.model import Kind
from penstock.events.schema import FaultRecord, WarningRecord
from penstock.http.bodies import parse_model
from penstock.http.schema import Name, Query, Record, RuleBroken, RulesBroken

WARNINGS = {
    "timestamp_looks_like_seconds": "Some timestamps are numbers below 100,000,000,000, so they "
    "look like seconds. An earlier version read them as milliseconds, as times in the 1970s.",
    "id_was_a_number": "Some IDs are numbers. They were stored as their decimal text.",
    "country_not_iso": "Some lines have a country that is not a two-letter code of ISO 3166-1, "
    "such as DE. It was stored as sent.",
}
"""Messages for warnings about a file's events, by code."""


_MAX_LISTED_NAMES = 1_000
_MAX_CELL_CHARS = 100
_MAX_SHOWN_VALUES = 3
_MAX_LISTED_PROPERTIES = 20

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

    website_id: Annotated[str, Field(description="The website or app that the events belong to.")]
    file_name: Annotated[
        Name | None, Field(description="Name of the file, shown in the list of imports.")
    ] = None
    dry_run: Annotated[
        bool,
        Field(
            description="true reads the file without storing an event of it. The import then waits "
            "in the state `checked` until it is started, for at most 24 hours."
        ),
    ] = False
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
        Field(
            description="The uses of the columns of a CSV or Parquet file, as the JSON text of an "
            "`ImportMapping`."
        ),
    ] = None
    mapping_id: Annotated[
        str | None, Field(description="A saved mapping to use instead of `mapping`.")
    ] = None

    @field_validator("mapping_id")
    @classmethod
    def _names_one_mapping(cls, mapping_id: str | None, info: ValidationInfo[Any]) -> str | None:
        if mapping_id is not None and info.data.get("mapping") is not None:
            raise RuleBroken("not_both", "Send either mapping or mappingId.")
        return mapping_id


class StartQuery(Query):
    """The summary that the start of an import is based on."""

    revision: Annotated[
        int | None,
        Field(
            ge=1,
            description="The revision of the summary that was read. If the mapping has changed "
            "since, the import does not start.",
        ),
    ] = None


class ListedImportRecord(Record):
    """An import and its progress, as in a list."""

    id: str
    website_id: str
    state: ImportState
    format: str
    file_name: str | None
    sha256: Annotated[str, Field(description="Hash of the file as it was sent.")]
    bytes_total: Annotated[int, Field(description="Size of the file as it was sent.")]
    bytes_read: Annotated[
        int, Field(description="How much of the file has been read, by the dry run or the import.")
    ]
    lines_read: Annotated[int, Field(description="Lines read so far, including empty lines.")]
    empty_lines: Annotated[int, Field(description="Empty lines, which were skipped.")]
    identify_lines: Annotated[
        int, Field(description="Lines that link visitors to a user, without an event.")
    ]
    ignored_lines: Annotated[
        int,
        Field(
            description="Lines with nothing that Penstock stores, such as a Segment `group` call."
        ),
    ]
    identity_conflicts: Annotated[
        int,
        Field(
            description="Lines whose visitor belongs to another user, so that nothing was merged."
        ),
    ]
    accepted: int
    duplicates: Annotated[int, Field(description="Lines whose event was stored before.")]
    rejected: Annotated[int, Field(description="Rejected lines. `rejects` lists the reasons.")]
    first_event_at: Annotated[
        str | None,
        Field(description="Time of the earliest event in the part of the file that has been read."),
    ]
    last_event_at: str | None
    revision: Annotated[int, Field(description="Rises from 1 with each change of the mapping.")]
    error: Annotated[
        str | None,
        Field(description="Why the import failed. Events that were stored before that are kept."),
    ]
    warnings: tuple[WarningRecord, ...]
    expires_at: Annotated[
        str | None,
        Field(
            description="When the file is removed, unless the import is started before. Null if "
            "the import does not wait for its start."
        ),
    ]
    gap_dismissed_at: Annotated[
        str | None, Field(description="When an owner dismissed the gap in the coverage of reports.")
    ]
    created_at: str
    updated_at: str
    finished_at: str | None

    @classmethod
    def from_job(cls, job: ImportJob, **more: Any) -> Self:
        """Return the record of an import. more: values of fields that a list leaves out."""
        return cls(
            id=job.id,
            website_id=job.website_id,
            state=job.state,
            format=job.format,
            file_name=job.file_name,
            sha256=job.sha256,
            bytes_total=job.bytes_total,
            bytes_read=job.bytes_read,
            lines_read=job.lines_read,
            empty_lines=job.empty_lines,
            identify_lines=job.identify_lines,
            ignored_lines=job.ignored_lines,
            identity_conflicts=job.identity_conflicts,
            accepted=job.accepted,
            duplicates=job.duplicates,
            rejected=job.rejected,
            first_event_at=iso_or_none(job.first_event_at_ms),
            last_event_at=iso_or_none(job.last_event_at_ms),
            revision=job.revision,
            error=job.error,
            warnings=tuple(
                WarningRecord(code=code, message=WARNINGS[code]) for code in job.warnings
            ),
            expires_at=iso_or_none(job.expires_at_ms),
            gap_dismissed_at=iso_or_none(job.gap_dismissed_at_ms),
            created_at=iso(job.created_at_ms),
            updated_at=iso(job.updated_at_ms),
            finished_at=iso_or_none(job.finished_at_ms),
            **more,
        )


class ImportRecord(ListedImportRecord):
    """An import and its progress."""

    mapping: Annotated[
        ImportMapping | None,
        Field(description="The uses of the file's columns. Null without a mapping."),
    ]

    @classmethod
    def from_job(cls, job: ImportJob, **more: Any) -> Self:
        return super().from_job(job, mapping=job.mapping, **more)


class EventNameRecord(Record):
    """An event name in a file."""

    type: Kind
    name: str
    events: int


class ReasonRecord(Record):
    """A reason why lines would be rejected. A line with several counts for its first."""

    field: Annotated[str, Field(description="The faulty field; empty for the whole line.")]
    code: str
    message: Annotated[str, Field(description="What is wrong with the first line.")]
    lines: int
    first_line: Annotated[int, Field(description="Number of the first line, from 1.")]
    excerpt: Annotated[
        str | None,
        Field(
            description="An excerpt of the first line, without secrets and network addresses. Null "
            "if the line is over the size limit, or once the import was started."
        ),
    ]


class FirstFunnelStepRecord(Record):
    """An event name that is suggested as a step of a funnel."""

    type: Kind
    name: str


class AttemptPropertyRecord(Record):
    """A property that looks like an attempt ID: most of its values are on several event names,
    nearly all on events of one visitor, and some visitors have several.
    """

    name: str
    values: Annotated[int, Field(description="Number of its values that were examined.")]
    event_names: Annotated[int, Field(description="Number of event names with the property.")]
    steps: Annotated[
        tuple[FirstFunnelStepRecord, ...],
        Field(
            description="The most frequent event names with the property, at most five, in the "
            "order in which attempts reach them."
        ),
    ]


class SampleRecord(Record):
    """The first rows of a table, with long values cut."""

    columns: list[str]
    rows: list[list[str]]

    @classmethod
    def from_sample(cls, sample: Sample) -> Self:
        rows = [[_cell(value) for value in row] for row in sample.rows]
        return cls(columns=list(sample.columns), rows=rows)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[:_MAX_CELL_CHARS]}…"


class UsedMappingRecord(Record):
    """A saved mapping that equals the one of a dry run."""

    id: str
    name: str


class ImportSummaryRecord(Record):
    """The result of a dry run. Nothing of the file is stored as an event."""

    revision: Annotated[
        int, Field(description="The revision of the import whose mapping the dry run has used.")
    ]
    is_complete: Annotated[
        bool,
        Field(
            description="false if the dry run ended before the end of the file, because it is "
            "large. All numbers then describe the beginning of the file."
        ),
    ]
    has_reached_limit: Annotated[
        bool,
        Field(
            description="true if the file has more IDs, event names, properties, values or "
            "reasons than a dry run examines. The lists and suggestions then describe a part of "
            "them; the numbers of events and lines are not affected."
        ),
    ]
    error: Annotated[
        str | None, Field(description="Why the import would fail after `linesRead` lines.")
    ]
    lines_read: int
    events: Annotated[int, Field(description="Events that would be accepted.")]
    duplicates: Annotated[
        int,
        Field(
            description="Events that repeat an earlier line of the file. Events that were stored "
            "before are not compared."
        ),
    ]
    rejected: Annotated[int, Field(description="Lines that would be rejected.")]
    identify_lines: int
    ignored_lines: int
    empty_lines: int
    identity_conflicts: int
    visitors: Annotated[
        int | None,
        Field(
            description="Visitors with events, with the IDs of the file linked. Null if the file "
            "has more than 250,000 IDs."
        ),
    ]
    first_event_at: str | None
    last_event_at: str | None
    event_name_count: Annotated[int, Field(description="Number of different event names.")]
    event_names: Annotated[
        tuple[EventNameRecord, ...],
        Field(description="The most frequent event names, at most 1,000."),
    ]
    reasons: Annotated[
        tuple[ReasonRecord, ...],
        Field(description="Why lines would be rejected, the most frequent reason first."),
    ]
    attempt_properties: Annotated[
        tuple[AttemptPropertyRecord, ...],
        Field(description="Properties that look like an attempt ID, the most likely first."),
    ]
    sample: Annotated[
        SampleRecord | None,
        Field(
            description="The first rows of a table. Null for other formats, and once the import "
            "was started."
        ),
    ]
    mapping: Annotated[
        ImportMapping | None,
        Field(
            description="The uses of the columns that the dry run has used. Unless one was sent, "
            "it is the saved mapping of the same columns, or else a guess. Null if the columns "
            "are the fields of an event, and for other formats."
        ),
    ]
    saved_mapping: Annotated[
        UsedMappingRecord | None,
        Field(description="A saved mapping that equals `mapping`. Null if there is none."),
    ] = None
    steps: Annotated[
        tuple[FirstFunnelStepRecord, ...],
        Field(
            description="The most frequent event names, at most five, in the order in which "
            "visitors reach them."
        ),
    ]

    @classmethod
    def from_summary(
        cls,
        summary: Summary,
        *,
        is_complete: bool,
        sample: Sample | None = None,
        mapping: ImportMapping | None = None,
        revision: int = 1,
    ) -> Self:
        return cls(
            revision=revision,
            is_complete=is_complete,
            has_reached_limit=summary.has_reached_limit,
            sample=None if sample is None else SampleRecord.from_sample(sample),
            mapping=mapping,
            error=summary.stopped,
            lines_read=summary.lines_read,
            events=summary.events,
            duplicates=summary.duplicates,
            rejected=summary.rejected,
            identify_lines=summary.identify_lines,
            ignored_lines=summary.ignored_lines,
            empty_lines=summary.empty_lines,
            identity_conflicts=summary.identity_conflicts,
            visitors=summary.visitors,
            first_event_at=iso_or_none(summary.first_event_at_ms),
            last_event_at=iso_or_none(summary.last_event_at_ms),
            event_name_count=len(summary.event_names),
            event_names=tuple(
                EventNameRecord(type=kind, name=name, events=events)
                for (kind, name), events in summary.event_names[:_MAX_LISTED_NAMES]
            ),
            reasons=tuple(
                ReasonRecord(
                    field=reason.fault.field,
                    code=reason.fault.code,
                    message=reason.fault.message,
                    lines=reason.lines,
                    first_line=reason.first_line,
                    excerpt=reason.excerpt,
                )
                for reason in summary.reasons
            ),
            attempt_properties=tuple(
                AttemptPropertyRecord(
                    name=each.name,
                    values=each.values,
                    event_names=each.event_names,
                    steps=_steps(each.steps),
                )
                for each in summary.attempt_properties[:_MAX_LISTED_PROPERTIES]
            ),
            steps=_steps(summary.steps),
        )

    def values_of(self, column: str) -> list[str]:
        """Return the first values of a column, without empty cells and repeats, at most three."""
        if self.sample is None or column not in self.sample.columns:
            return []
        place = self.sample.columns.index(column)
        values = [row[place] for row in self.sample.rows if len(row) > place and row[place]]
        return list(dict.fromkeys(values))[:_MAX_SHOWN_VALUES]

    def without_content(self) -> Self:
        """Return the summary without texts of the file that may name people."""
        reasons = tuple(reason.model_copy(update={"excerpt": None}) for reason in self.reasons)
        return self.model_copy(update={"reasons": reasons, "sample": None})

    def without_texts(self, names_one: Callable[[str], bool]) -> tuple[Self, list[str]]:
        """Return the summary without texts about a person, and these texts.

        names_one: function that tests whether a text contains an ID of the person. Removes whole
        rows of the sample, excerpts and event names.
        """
        texts = list[str]()

        def is_removed(*parts: str) -> bool:
            if not any(map(names_one, parts)):
                return False
            texts.append(", ".join(parts))
            return True

        def steps(records: Sequence[FirstFunnelStepRecord]) -> tuple[FirstFunnelStepRecord, ...]:
            return tuple(each for each in records if not names_one(each.name))

        sample = self.sample and self.sample.model_copy(
            update={"rows": [row for row in self.sample.rows if not is_removed(*row)]}
        )
        reasons = tuple(
            reason.model_copy(update={"excerpt": None})
            if reason.excerpt is not None and is_removed(reason.excerpt)
            else reason
            for reason in self.reasons
        )
        names = tuple(each for each in self.event_names if not is_removed(each.name))
        properties = tuple(
            each.model_copy(update={"steps": steps(each.steps)}) for each in self.attempt_properties
        )
        changed: dict[str, Any] = {
            "sample": sample,
            "reasons": reasons,
            "event_names": names,
            "attempt_properties": properties,
            "steps": steps(self.steps),
        }
        return self.model_copy(update=changed), texts


def _steps(keys: Sequence[EventKey]) -> tuple[FirstFunnelStepRecord, ...]:
    return tuple(FirstFunnelStepRecord(type=kind, name=name) for kind, name in keys)


class RejectRecord(Record):
    """A rejected line."""

    line: Annotated[int, Field(description="Line number, from 1.")]
    errors: tuple[FaultRecord, ...]
    excerpt: Annotated[
        str | None,
        Field(
            description="An excerpt of the line, without secrets and network addresses. Null if "
            "the line is over the size limit or comes after the first 1,000 rejected lines."
        ),
    ]

    @classmethod
    def from_reject(cls, reject: Reject) -> Self:
        errors = tuple(FaultRecord.of(fault) for fault in reject.faults)
        return cls(line=reject.line, errors=errors, excerpt=reject.excerpt)
