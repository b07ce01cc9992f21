"""The wire type for the content of each row."""

from typing import Annotated, Literal

from msgspec import Meta
from pydantic import AfterValidator, Field, RootModel

from penstock.events.fields import (
    Currency,
    EventName,
    Number,
    PastTimestamp,
    Plain,
    PlainId,
    Properties,
    SentId,
)
from penstock.events.schema import TrackedItem
from penstock.http.schema import Input, RuleBroken

IDENTIFY = "identify"
_MAX_VISITORS = 100


def _few(visitor_ids: list[str]) -> list[str]:
    if len(visitor_ids) > _MAX_VISITORS:
        raise RuleBroken("too_many", f"A line may have at most {_MAX_VISITORS} visitor IDs.")
    return visitor_ids


VisitorIds = Annotated[
    list[SentId],
    AfterValidator(_few),
    Plain(Annotated[list[PlainId], Meta(max_length=_MAX_VISITORS)]),
]


class ImportLine(TrackedItem):
    """A past event of a visitor (`visitorId`) or a user (`userId`)."""

    timestamp: Annotated[
        PastTimestamp, Field(description="When the event happened, no matter how long ago.")
    ]
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    visitor_ids: Annotated[
        VisitorIds | None,
        Field(
            description="More visitors who are this user. They are linked before the event is "
            "stored. Needs `userId`."
        ),
    ] = None
    external_session_id: SentId | None = None
    dedupe_key: Annotated[
        SentId | None,
        Field(
            description="Identifies repeats. Without it, transactionId or else the line's "
            "content identifies them."
        ),
    ] = None
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


class IdentifyLine(Input):
    """Links visitors to a user, without an event."""

    type: Literal["identify"]
    user_id: SentId
    visitor_ids: Annotated[
        VisitorIds | None, Field(description="The visitors who are this user.")
    ] = None
    traits: Annotated[
        Properties | None, Field(description="Traits of the user. They replace earlier traits.")
    ] = None


class ImportedLine(RootModel[ImportLine | IdentifyLine]):
    """A line of an import: an event, or IDs of a user."""
