"""Changes that left gaps in a website's history."""

from dataclasses import dataclass

from penstock.base.ids import WebsiteId


@dataclass(frozen=True, slots=True)
class Gap:
    """A deletion, an import, retention or a loss that changed a website's history.

    from_ms, to_ms: span of the events that it changed. at_ms: time of the request.
    affected_range: times of the first and last event that it changed or may have left out.
    note: a sentence about remaining doubt; None if the change is finished and complete.
    dismissed_at_ms: time at which an owner declared that nothing is missing; None if nobody did.
    event_kind: the only kind of event that it concerns, in the warehouse's spelling; None for all.
    """

    kind: str
    website_id: WebsiteId
    from_ms: int
    to_ms: int
    affected_range: tuple[int, int]
    at_ms: int
    state: str
    note: str | None
    dismissed_at_ms: int | None = None
    event_kind: str | None = None
