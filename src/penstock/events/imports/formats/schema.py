"""The wire type for the content of each row."""

from typing import Annotated, Any, Literal

from msgspec import Meta
from pydantic import AfterValidator, Field, RootModel, ValidationInfo, field_validator

from penstock.base.event_limits import MAX_NAME_CHARS, MAX_PATH_CHARS
from penstock.events.fields import (
    Currency,
    EventName,
    Number,
    PastTimestamp,
    Plain,
    PlainId,
    Properties,
    SentId,
    Text,
    Timestamp,
    valid_text,
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


STORED = "stored"


def _short_path(path: str) -> str:
    return valid_text(path, MAX_PATH_CHARS)


class StoredLine(Input):
    """An event as another Penstock stored it. Only `penstock import --from penstock` sends it, with
    a key that has the permission manage.
    """

    type: Literal["stored"]
    kind: Literal["pageview", "screenview", "event", "transaction", "provider"]
    name: str
    source: Literal["server", "browser", "app", "import", "provider"]
    event_id: SentId
    client_event_id: Text | None = None
    occurred_at: PastTimestamp
    stated_at: Timestamp
    received_at: PastTimestamp
    visitor_id: SentId
    user_id: SentId | None = None
    verified: bool = False
    session_id: SentId | None = None
    external_session_id: SentId | None = None
    path: Annotated[str, AfterValidator(_short_path)] | None = None
    url: Text | None = None
    title: Text | None = None
    referrer: Text | None = None
    referrer_host: Text | None = None
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None
    link: EventName | None = None
    link_method: EventName | None = None
    properties: Properties | None = None

    @field_validator("name")
    @classmethod
    def _has_the_limits_of_its_kind(cls, name: str, info: ValidationInfo[Any]) -> str:
        is_path = info.data.get("kind") == "pageview"
        return valid_text(name, MAX_PATH_CHARS if is_path else MAX_NAME_CHARS)
