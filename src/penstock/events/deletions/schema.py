"""Wire types for deletions, and the rules for requesting a deletion."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from penstock.base.errors import Fault
from penstock.base.value_budget import FORM
from penstock.events.deletions.model import (
    Deletion,
    DeletionState,
    RemainingExport,
    Step,
    Target,
)
from penstock.events.fields import (
    TIME_SCHEMA,
    EventValidationContext,
    ExactId,
    SentId,
    time_from_1970_ms,
)
from penstock.events.validation import RawItem, Rule, validate
from penstock.http.bodies import parse_object
from penstock.http.schema import Input, Iso, Record, RuleBroken
from penstock.identity.model import is_placeholder

_MAX_EXPORTS = 100
_END_OF_TIME_MS = 10_413_792_000_000
"""Start of the year 2300 in milliseconds. The engine's times end before it."""


def _span_end_ms(value: Any) -> int:
    try:
        return time_from_1970_ms(value)
    except RuleBroken as error:
        if error.code == "timestamp_in_future":  # This is the parser's code for years after 9999.
            raise RuleBroken("out_of_range", "Must be before the year 2300.") from None
        raise


SpanEnd = Annotated[int, PlainValidator(_span_end_ms), TIME_SCHEMA]


class DeletionIn(Input):
    """A request to delete a visitor, a user, or all events in a period (exactly one of these)."""

    website_id: SentId
    visitor_id: ExactId | None = None
    """Any ID of the visitor. Visitors merged with it are deleted too."""
    user_id: ExactId | None = None
    """A user ID. Deletes the linked visitor and every event that contains the user ID."""
    from_: Annotated[SpanEnd | None, Field(alias="from")] = None
    """Events at or after this time. Requires `to`."""
    to: SpanEnd | None = None
    """Events before this time. Requires `from`."""

    @field_validator("visitor_id", "user_id")
    @classmethod
    def _is_no_placeholder(cls, sent_id: str | None) -> str | None:
        if sent_id is not None and is_placeholder(sent_id):
            raise RuleBroken(
                "stands_for_nobody",
                "This is a placeholder shared by many visitors. Delete its events by from and to.",
            )
        return sent_id

    @field_validator("from_", "to")
    @classmethod
    def _is_in_range(cls, at_ms: int | None) -> int | None:
        if at_ms is not None and at_ms > _END_OF_TIME_MS:
            raise RuleBroken("out_of_range", "Must be before the year 2300.")
        return at_ms

    @field_validator("to")
    @classmethod
    def _ends_after_start(cls, to_ms: int | None, info: ValidationInfo) -> int | None:
        from_ms = info.data.get("from_")
        if to_ms is not None and from_ms is not None and to_ms <= from_ms:
            raise RuleBroken(
                "ends_before_start",
                "Must be later than from. The span includes from and excludes to.",
            )
        return to_ms

    @property
    def target(self) -> Target:
        if self.visitor_id is not None:
            return Target.VISITOR
        return Target.SPAN if self.user_id is None else Target.USER


_ENDS = ("from", "to")


def _has_one_target(raw: RawItem) -> Iterator[Fault]:
    names = [name for name in ("visitorId", "userId", *_ENDS) if raw.get(name) is not None]
    if not names:
        yield Fault("visitorId", "target_required", "Send visitorId, userId, or from and to.")
        return
    first = names[0]
    for name in names[1:]:
        if not (first in _ENDS and name in _ENDS):
            message = f"Cannot be combined with {first}. Request one deletion at a time."
            yield Fault(name, "not_allowed", message)
    if first in _ENDS and len(names) == 1:
        [missing] = set(_ENDS) - set(names)
        yield Fault(missing, "required", f"Send {missing} as well; a span needs both ends.")


_RULES: tuple[Rule, ...] = (_has_one_target,)


def read_deletion(body: bytes, context: EventValidationContext) -> DeletionIn:
    """Read a deletion request. Raises `Malformed`, or `Invalid` with every fault."""
    return validate(parse_object(body, budget=FORM), DeletionIn, _RULES, context)


class RemainingExportRecord(Record):
    """An export that was made before a deletion and can still contain the person."""

    destination: str
    """The folder or bucket, as `penstock export` named it."""
    started_at: Iso
    """Start of the last export to this destination before the deletion."""
    first_day: str | None
    """First day of its events, in UTC."""
    last_day: str | None
    """Last day of its events, in UTC."""


class DeletionRecord(Record):
    """A deletion and its progress."""

    id: str
    website_id: str
    target: Target
    visitor_id: str | None
    """The ID in the request. Null once the deletion is done, so that no trace of it remains."""
    user_id: str | None
    """The ID in the request. Null once the deletion is done."""
    from_: Annotated[Iso | None, Field(alias="from")]
    to: Iso | None
    kind: str | None
    """The kind of event, if target is retention."""
    import_id: str | None
    """The import that is undone, if target is import."""
    state: DeletionState
    step: Step | None
    """The current or next step; null once the deletion is done."""
    visitors_removed: int
    """IDs of the visitor, including merged ones."""
    user_links_removed: int
    events_found: int | None
    """Null until the events have been counted."""
    events_removed: int
    dedupe_keys_cleared: int
    """Dedupe keys from which the visitor was removed. They still recognise repeats."""
    removed: dict[str, dict[str, int]]
    """Number of removed records, by store (`database`, `warehouse`) and kind of data."""
    open_imports: list[str]
    """Imports that were unfinished at the time of the request. Their events are kept."""
    exports: list[RemainingExportRecord]
    """Exports that were made before the deletion of a person and can still contain the person,
    newest first, at most 100. An export to the same destination that starts after the deletion is
    done removes its entry.
    """
    more_exports: int
    """Number of further exports that are not listed in `exports`."""
    error: str | None
    """Why the job is waiting. It will try again."""
    created_at: Iso
    """Events received later are not deleted."""
    updated_at: Iso
    finished_at: Iso | None

    @classmethod
    def from_deletion(cls, deletion: Deletion, exports: Sequence[RemainingExport]) -> Self:
        return cls.from_object(
            deletion,
            from_=deletion.from_at_ms,
            to=deletion.to_at_ms,
            visitors_removed=deletion.visitors,
            user_links_removed=deletion.user_links,
            dedupe_keys_cleared=deletion.keys_cleared,
            exports=exports[:_MAX_EXPORTS],
            more_exports=max(0, len(exports) - _MAX_EXPORTS),
        )
