"""Wire types for webhooks."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PlainValidator

from penstock.accounts.model import SigningSecret
from penstock.events.fields import TIME_SCHEMA, time_from_1970_ms
from penstock.http.schema import Input, Iso, Name, Omittable, Record, RuleBroken
from penstock.outbound.targets import MAX_URL_CHARS
from penstock.settings import DAY_S
from penstock.webhooks.model import Delivery, Webhook, WebhookEvent

MIN_EXPIRING_S, MAX_EXPIRING_S = 60, 366 * DAY_S


def _not_repeated(events: list[WebhookEvent]) -> list[WebhookEvent]:
    if len(set(events)) < len(events):
        raise RuleBroken("repeated", "Must not list a type twice.")
    return events


Url = Annotated[str, Field(max_length=MAX_URL_CHARS)]
Events = Annotated[
    list[Annotated[WebhookEvent, Field(strict=False)]],
    Field(min_length=1),
    AfterValidator(_not_repeated),
]
ExpiringBefore = Annotated[int, Field(ge=MIN_EXPIRING_S, le=MAX_EXPIRING_S)]


class WebhookIn(Input):
    """A webhook: which outcomes of a funnel go to which address."""

    name: Name
    url: Url
    """Receives the messages; must begin with `https://`."""
    funnel_id: str
    """A funnel that counts attempts and whose outcomes can be stored."""
    website_id: str | None = None
    """Only outcomes of this website; by default, of all websites."""
    events: Events
    """Types of messages: `entered`, `step_completed`, `completed`, `dropped_off`, `expiring`."""
    expiring_before_seconds: ExpiringBefore | None = None
    """With `expiring`: seconds before the end of the window at which the message is made."""


class WebhookChange(Input):
    """Changes to a webhook. Omitted fields keep their value."""

    name: Omittable[Name] = None
    url: Omittable[Url] = None
    events: Omittable[Events] = None
    expiring_before_seconds: ExpiringBefore | None = None


class ReplayIn(Input):
    """Where a replay starts."""

    from_: Annotated[int, PlainValidator(time_from_1970_ms), TIME_SCHEMA, Field(alias="from")]
    """Outcomes since this time are sent again; at most 30 days ago."""


class SecretIn(Input):
    """How a new secret replaces the others."""

    previous_valid_seconds: Annotated[int, Field(ge=0, le=7 * DAY_S)] = DAY_S
    """Seconds for which messages are signed with the earlier secrets too; 0 ends them at once."""


class WebhookState(StrEnum):
    """ACTIVE: messages are made and sent. HELD: none are made; `problem` says why. FAILING: the
    last delivery failed. PAUSED: none are made or sent.
    """

    ACTIVE = "active"
    HELD = "held"
    FAILING = "failing"
    PAUSED = "paused"


class WebhookSecretRecord(Record):
    """The validity of a secret."""

    created_at: Iso
    valid_until: Iso | None
    """Null for the current secret."""


class UnitWebhookRecord(Record):
    """A webhook and the state of its deliveries."""

    id: str
    name: str
    url: str
    funnel_id: str
    website_id: str | None
    events: tuple[WebhookEvent, ...]
    expiring_before_seconds: int | None
    state: WebhookState
    problem: str | None
    """Why no messages are made; null if they are."""
    waiting: int
    """Messages that wait."""
    failures: int
    """Deliveries that have failed since one succeeded."""
    failing_since: Iso | None
    next_try_at: Iso | None
    """When a failed delivery is tried again."""
    secrets: tuple[WebhookSecretRecord, ...]
    created_at: Iso
    updated_at: Iso
    paused_at: Iso | None

    @classmethod
    def from_webhook(
        cls, webhook: Webhook, waiting: int, secrets: Sequence[SigningSecret], **others: str
    ) -> Self:
        state = WebhookState.ACTIVE
        if webhook.paused_at_ms is not None:
            state = WebhookState.PAUSED
        elif webhook.failures:
            state = WebhookState.FAILING
        elif webhook.problem is not None:
            state = WebhookState.HELD
        return cls.from_object(
            webhook,
            state=state,
            waiting=waiting,
            next_try_at=webhook.next_try_at_ms if webhook.failures else None,
            secrets=tuple(secrets),
            **others,
        )


class NewUnitWebhookRecord(UnitWebhookRecord):
    """A webhook with a new secret."""

    secret: Annotated[str, Field(repr=False)]
    """Signs the messages. It is shown only once."""


class DeliveryRecord(Record):
    """A request to the receiver."""

    at: Iso
    message_id: str
    """The header `webhook-id`. A request that is sent again has the same."""
    messages: int
    """Number of messages in the request."""
    accepted: bool
    """Whether the response had a status from 200 to 299."""
    status: int | None
    """Status of the response; null if there was none."""
    text: str
    """The first 500 characters of the response, or why there was none."""
    took_ms: int

    @classmethod
    def from_delivery(cls, delivery: Delivery) -> Self:
        return cls.from_object(delivery, accepted=delivery.is_accepted)
