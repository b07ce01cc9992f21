"""The wire type for the content of each row."""

from typing import Annotated

from pydantic import Field

from penstock.events.fields import Currency, EventName, Number, PastTimestamp, SentId
from penstock.events.schema import TrackedItem


class ImportLine(TrackedItem):
    """A past event of a visitor (`visitorId`) or a user (`userId`)."""

    timestamp: Annotated[
        PastTimestamp, Field(description="When the event happened, no matter how long ago.")
    ]
    visitor_id: SentId | None = None
    user_id: SentId | None = None
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
