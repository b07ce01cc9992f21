"""Plain types for payment providers. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.accounts.model import SigningSecret
from penstock.events.model import Receipt

Properties = dict[str, str | int | float | bool]


class Provider(StrEnum):
    """A sender of webhooks. The values appear in URLs.

    STANDARD: any sender that follows Standard Webhooks.
    """

    STRIPE = "stripe"
    POLAR = "polar"
    STANDARD = "standardwebhooks"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """A provider whose webhooks a website accepts.

    secrets: the valid signing secrets, with the current secret first.
    """

    provider: Provider
    website_id: str
    secrets: tuple[SigningSecret, ...]


class Delivery(NamedTuple):
    """A webhook request. headers: keys are lower case."""

    headers: Mapping[str, str]
    body: bytes


class ReceivedWebhook(NamedTuple):
    """A webhook whose event is safely on disk. name: the event's name in the warehouse."""

    name: str
    receipt: Receipt


class EventMapping(NamedTuple):
    """The transaction event that belongs to one of a provider's event types.

    amount: the field of the provider's object that contains the amount; None if there is no amount.
    """

    name: str
    amount: str | None = None


class ProviderEvent(NamedTuple):
    """An event from a provider.

    id, type: the event's ID and type at the provider. name: the transaction event; None if the type
    has no mapping. properties: fields from the provider's object. metadata: values that the
    merchant set, not validated. customer_id, email: the customer's ID and email address at the
    provider, used only to match customers.
    """

    id: str
    type: str
    name: str | None
    occurred_at_ms: int
    properties: Mapping[str, str | int | float | bool]
    metadata: Any
    customer_id: str | None
    email: str | None


IDENTITY_KEYS = ("visitorId", "userId", "websiteId")
"""Metadata keys that identify the event's visitor, user and website."""


class NotAnEvent(ValueError):
    """Raised when a signed body is not a readable event. The message gives the reason."""
