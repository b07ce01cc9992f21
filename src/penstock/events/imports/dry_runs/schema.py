"""Wire types for dry runs."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping
from penstock.events.imports.schema import ImportWarningRecord
from penstock.events.model import Kind
from penstock.http.schema import Input, Iso, Query, Rate, Record

_MAX_CELL_CHARS = 100
_MAX_SHOWN_VALUES = 3


class StartQuery(Query):
    """The summary that the start of an import is based on."""

    revision: Annotated[int | None, Field(ge=1)] = None
    """The revision of the summary that was read. If the mapping has changed since, the import does
    not start.
    """


class ImportStart(Input):
    """The conditions under which an import may start."""

    mapping: CompleteMapping | None = None
    """The mapping that the sender expects. If the dry run has used another one, the import does not
    start.
    """


class ReasonRecord(Record):
    """A reason why lines would be rejected. A line with several counts for its first."""

    field: str
    """The faulty field; empty for the whole line."""
    code: str
    message: Annotated[str, Field(description="What is wrong with the first line.")]
    lines: int
    first_line: int
    """Number of the first line, from 1."""
    excerpt: str | None
    """An excerpt of the first line, without secrets and network addresses. Null if the line is over
    the size limit, or once the import was started.
    """


class FirstFunnelStepRecord(Record):
    """An event name that is suggested as a step of a funnel."""

    type: Kind
    name: str


class EventNameRecord(FirstFunnelStepRecord):
    """An event name in a file."""

    events: int


class AttemptPropertyRecord(Record):
    """The property with the use `attempt`, or one that looks like an attempt ID: most of its values
    are on several event names, nearly all on events of one visitor, and some visitors have several.
    """

    name: str
    values: int
    """Number of its values that were examined."""
    event_names: int
    """Number of event names with the property."""
    share: Rate = 1.0
    """Share of the events of the steps that have it."""
    several_entries: int = 0
    """Values with several events of step 1."""
    several_visitors: int = 0
    """Values with events of several visitors."""
    split_visitors: int = 0
    """Visitors with several values."""
    sentence: str = ""
    """The same in words. Empty for dry runs of earlier versions, which did not count this."""
    steps: tuple[FirstFunnelStepRecord, ...]
    """The steps of a first funnel, at most five event names with the property, in the order in
    which attempts reach them.
    """


def _cut(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[:_MAX_CELL_CHARS]}…"


Cell = Annotated[str, BeforeValidator(_cut)]
"""The text of a value in a table, with a long one cut."""


class SampleRecord(Record):
    """The first rows of a table, with long values cut."""

    columns: list[str]
    rows: list[list[Cell]]


class UsedMappingRecord(Record):
    """A saved mapping with the same content as the mapping of a dry run."""

    id: str
    name: str


class ImportSummaryRecord(Record):
    """The result of a dry run. Nothing of the file is stored as an event."""

    revision: int
    """The revision of the import whose mapping the dry run has used."""
    is_complete: bool
    """false if the dry run ended before the end of the file, because it is large. All numbers then
    describe the beginning of the file.
    """
    has_reached_limit: bool
    """true if the file has more IDs, event names, properties, values or reasons than a dry run
    examines. The lists and suggestions then describe a part of them; the numbers of events and
    lines are not affected.
    """
    left_out: Annotated[
        tuple[str, ...],
        Field(description="What is left out then, in sentences. Empty without a limit."),
    ] = ()
    error: str | None
    """Why the import would fail after `linesRead` lines."""
    lines_read: int
    events: int
    """Events that would be accepted."""
    duplicates: int
    """Events that repeat an earlier line of the file. Events that were stored before are not
    compared.
    """
    rejected: int
    """Lines that would be rejected."""
    identify_lines: int
    ignored_lines: int
    empty_lines: int
    identity_conflicts: int
    visitors: int | None
    """Visitors with events, with the IDs of the file linked. Null if the file has more than 250,000
    IDs.
    """
    first_event_at: Iso | None
    last_event_at: Iso | None
    event_name_count: int
    """Number of different event names."""
    event_names: tuple[EventNameRecord, ...]
    """The most frequent event names, at most 1,000."""
    reasons: tuple[ReasonRecord, ...]
    """Why lines would be rejected, the most frequent reason first."""
    warnings: Annotated[
        tuple[ImportWarningRecord, ...],
        Field(description="What is unusual in its events, and what does not fit."),
    ] = ()
    attempt_properties: tuple[AttemptPropertyRecord, ...]
    """Properties that look like an attempt ID, the most likely first."""
    sample: SampleRecord | None
    """The first rows of a table. Null for other formats, and once the import was started."""
    mapping: ImportMapping | None
    """The uses of the columns that the dry run has used. Unless one was sent, it is the saved
    mapping of the same columns, or else a guess. Null if the columns are the fields of an event,
    and for other formats.
    """
    saved_mapping: UsedMappingRecord | None = None
    """A saved mapping that equals `mapping`. Null if there is none."""
    steps: tuple[FirstFunnelStepRecord, ...]
    """The steps of a first funnel, at most five event names, in the order in which visitors reach
    them: the last one that many reach, and those that most of these visitors reach before.
    """
    other_date_format: str | None = None
    """The format in which all times could be read as well, with day and month in the other order
    than in the mapping. Null if some row proves the order.
    """
    whole_seconds: bool = False
    """true if all times of events are whole seconds. Events in the same second then prove no order.
    """
    sequence_property: str | None = None
    """A property whose whole numbers rise with each event of a visitor, so that it proves the order
    of events with equal times. Null if there is none.
    """

    def values_of(self, column: str) -> list[str]:
        """Return the first values of a column, without empty cells and repeats, at most three."""
        if self.sample is None or column not in self.sample.columns:
            return []
        index = self.sample.columns.index(column)
        values = [row[index] for row in self.sample.rows if len(row) > index and row[index]]
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
