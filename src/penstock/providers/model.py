"""Plain types of payment providers. No I/O. Times are milliseconds since 1970-01-01 UTC."""

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
    """A provider whose webhooks a website accepts. secrets: valid ones, current secret first."""

    provider: Provider
    website_id: str
    secrets: tuple[SigningSecret, ...]


class Delivery(NamedTuple):
    """A webhook request. headers: by lower-case name."""

    headers: Mapping[str, str]
    body: bytes


class ReceivedWebhook(NamedTuple):
    """A webhook whose event is on disk. name: the event's name in the warehouse."""

    name: str
    receipt: Receipt


class EventMapping(NamedTuple):
    """The transaction event for a provider's type of event.

    amount: the field of the provider's object that has the amount; None without an amount.
    """

    name: str
    amount: str | None = None


class ProviderEvent(NamedTuple):
    """An event from a provider.

    id, type: the provider's ID and type. name: the transaction event; None for a type without a
    mapping. properties: parsed from the provider's object. metadata: set by the merchant, not
    validated. customer_id, email: the provider's customer, used for matching only.
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
"""Metadata keys that say to whom an event belongs."""


class NotAnEvent(ValueError):
    """A signed body is not a readable event. The message says why."""
