"""What deletions look like on the wire, and the rules of asking for one."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from penstock.base.clock import iso, iso_or_none
from penstock.base.errors import Fault
from penstock.events.checking import Rule, Sent, checked
from penstock.events.deletions.model import Deletion, State, Step, Target
from penstock.events.fields import Bounds, Moment, SentId
from penstock.http.bodies import parse_json
from penstock.http.schema import Input, Record, RuleBroken
from penstock.identity.model import is_placeholder

_AFTER_ALL_MS = 10_413_792_000_000
"""The first millisecond of 2300, which is where the engine's times end."""


class DeletionIn(Input):
    """What is to be deleted: a visitor, a user, or all events of a span of time. One of the three."""

    website_id: SentId
    visitor_id: Annotated[SentId | None, Field(description="Any ID of the visitor; everything that was merged with it goes as well.")] = (
        None
    )
    user_id: Annotated[SentId | None, Field(description="The user whose linked visitor is deleted.")] = None
    from_: Annotated[Moment | None, Field(alias="from", description="Events that occurred at or after it. Needs to.")] = None
    to: Annotated[Moment | None, Field(description="Events that occurred before it. Needs from.")] = None

    @field_validator("visitor_id", "user_id")
    @classmethod
    def _is_somebody(cls, sent_id: str | None) -> str | None:
        if sent_id is not None and is_placeholder(sent_id):
            raise RuleBroken("stands_for_nobody", "Stands for nobody in particular. To delete such events, give from and to.")
        return sent_id

    @field_validator("from_", "to")
    @classmethod
    def _can_be_reached(cls, at_ms: int | None) -> int | None:
        if at_ms is not None and at_ms > _AFTER_ALL_MS:
            raise RuleBroken("out_of_range", "Must lie before 2300.")
        return at_ms

    @field_validator("to")
    @classmethod
    def _ends_after_start(cls, to_ms: int | None, info: ValidationInfo) -> int | None:
        from_ms = info.data.get("from_")
        if to_ms is not None and from_ms is not None and to_ms <= from_ms:
            raise RuleBroken("ends_before_start", "Must be later than from; the span includes from and excludes to.")
        return to_ms

    @property
    def target(self) -> Target:
        if self.visitor_id is not None:
            return Target.VISITOR
        return Target.SPAN if self.user_id is None else Target.USER


_ENDS = ("from", "to")


def _has_one_target(sent: Sent) -> Iterator[Fault]:
    given = [name for name in ("visitorId", "userId", *_ENDS) if sent.get(name) is not None]
    if not given:
        yield Fault("visitorId", "target_required", "Send visitorId, userId, or from and to.")
        return
    for name in given[1:]:
        if not (given[0] in _ENDS and name in _ENDS):
            yield Fault(name, "not_allowed", f"Does not go together with {given[0]}; ask for one deletion at a time.")
    if given[0] in _ENDS and len(given) == 1:
        [missing] = set(_ENDS) - set(given)
        yield Fault(missing, "required", f"Send {missing} as well; {given[0]} alone is no span.")


_RULES: tuple[Rule, ...] = (_has_one_target,)


def read_deletion(body: bytes, bounds: Bounds) -> DeletionIn:
    """`Malformed`, or `Invalid` with every fault."""
    raw: Any = parse_json(body)
    return checked(raw, DeletionIn, _RULES, bounds)


class DeletionRecord(Record):
    """A deletion and how far it is."""

    id: str
    website_id: str
    target: Target
    visitor_id: Annotated[str | None, Field(description="As asked for; null once done, for then no trace of it stays.")]
    user_id: Annotated[str | None, Field(description="As asked for; null once done.")]
    from_: Annotated[str | None, Field(alias="from")]
    to: str | None
    state: State
    step: Annotated[Step | None, Field(description="What is done now or next; null once done.")]
    visitors_removed: Annotated[int, Field(description="IDs of the visitor, merged ones included.")]
    user_links_removed: int
    events_found: Annotated[int | None, Field(description="null until they are counted.")]
    events_removed: int
    dedupe_keys_cleared: Annotated[int, Field(description="They go on recognising repeats, but forgot the visitor.")]
    open_imports: Annotated[list[str], Field(description="Imports that were not done when it was asked for; what they bring stays.")]
    error: Annotated[str | None, Field(description="Why it waits at the moment; it goes on by itself.")]
    created_at: Annotated[str, Field(description="When it was asked for; what was received later stays.")]
    updated_at: str
    finished_at: str | None

    @classmethod
    def of(cls, deletion: Deletion) -> "DeletionRecord":
        return cls(
            id=deletion.id,
            website_id=deletion.website_id,
            target=deletion.target,
            visitor_id=deletion.visitor_id,
            user_id=deletion.user_id,
            from_=iso_or_none(deletion.from_ms),
            to=iso_or_none(deletion.to_ms),
            state=deletion.state,
            step=deletion.step,
            visitors_removed=deletion.visitors,
            user_links_removed=deletion.user_links,
            events_found=deletion.events_found,
            events_removed=deletion.events_removed,
            dedupe_keys_cleared=deletion.keys_cleared,
            open_imports=list(deletion.open_imports),
            error=deletion.error,
            created_at=iso(deletion.created_at_ms),
            updated_at=iso(deletion.updated_at_ms),
            finished_at=iso_or_none(deletion.finished_at_ms),
        )
