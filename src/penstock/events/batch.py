"""Many items in one body: each is taken or refused by itself."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from penstock.base.errors import Fault, Invalid, PenstockError
from penstock.events.checking import Rule, Sent
from penstock.events.fields import Bounds, KnownWebsite, Moment
from penstock.events.model import NewEvent, Receipt
from penstock.http.schema import Input, RuleBroken

BATCH_RULE = "1 to 1,000 items, unless the server is set up otherwise"


class _Envelope(Input):
    events: list[Any] = Field(description=BATCH_RULE)

    @field_validator("events")
    @classmethod
    def _counted(cls, value: list[Any], info: ValidationInfo) -> list[Any]:
        bounds: Bounds = info.context  # type: ignore[assignment]
        if not value:
            raise RuleBroken("too_few", "A batch has at least one event.")
        if len(value) > bounds.limits.max_batch_events:
            raise RuleBroken("too_many", f"A batch has at most {bounds.limits.max_batch_events:,} events.")
        return value


class EventBatch(_Envelope):
    """Events of a trusted backend, each as for the single route."""


class TrackBatch(_Envelope):
    """Items of one browser or app. What is said here holds for items that do not say it themselves."""

    website_id: KnownWebsite | None = None
    sent_at: Moment | None = Field(default=None, description="the sender's clock at the time of sending")


def _keeps_sessions_in_items(sent: Sent) -> Iterator[Fault]:
    if "sessionId" in sent:
        yield Fault("sessionId", "unknown_field", "A batch has no sessionId; put it into each item.")


TRACK_BATCH_RULES: tuple[Rule, ...] = (_keeps_sessions_in_items,)


class Outcome(NamedTuple):
    """What became of one item: a receipt, or the faults for which it was refused."""

    receipt: Receipt | None
    faults: tuple[Fault, ...] = ()


class Sorted(NamedTuple):
    """A batch after validation. refused: place -> faults; events: place -> event, of all other places."""

    events: dict[int, NewEvent]
    refused: dict[int, tuple[Fault, ...]]

    def outcomes(self, receipts: list[Receipt]) -> list[Outcome]:
        """In the order of the items. receipts: in the order of `events`."""
        stored = dict(zip(self.events, receipts, strict=True))
        return [Outcome(stored.get(place), self.refused.get(place, ())) for place in range(len(self.events) + len(self.refused))]


def faults_of_item(error: PenstockError) -> tuple[Fault, ...]:
    """Why an item of a batch was refused. What is no fault of a field is about its website: whose it is."""
    return error.faults if isinstance(error, Invalid) else (Fault("websiteId", error.code, error.detail.removeprefix("websiteId: ")),)
