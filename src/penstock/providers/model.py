"""Plain types of payment providers. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.accounts.model import SigningSecret
from penstock.events.model import Receipt

Properties = dict[str, str | int | float | bool]


class Provider(StrEnum):
    """A sender of webhooks; the value is its spelling in URLs.

    STANDARD: any sender that follows Standard Webhooks.
    """

    STRIPE = "stripe"
    POLAR = "polar"
    STANDARD = "standardwebhooks"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """A provider whose webhooks a website accepts. secrets: the valid ones, current one first."""

    provider: Provider
    website_id: str
    secrets: tuple[SigningSecret, ...]


class Delivery(NamedTuple):
    """A webhook request. headers: by lower-case name."""

    headers: Mapping[str, str]
    body: bytes


class ReceivedWebhook(NamedTuple):
    """A webhook that is on disk. name: the event's name in the warehouse."""

    name: str
    receipt: Receipt


class EventMapping(NamedTuple):
    """The transaction event for a provider's type of event.

    amount: the field of the provider's object with the amount; None where there is none.
    """

    name: str
    amount: str | None = None


class ProviderEvent(NamedTuple):
    """An event as the provider sent it.

    id, type: the provider's own. name: the transaction event; None for a type without a mapping.
    properties: read from the provider's object. metadata: set by the provider's customer,
    unvalidated. customer_id, email: the provider's customer, used for matching only.
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
"""Metadata that tells whom an event belongs to."""


class NotAnEvent(ValueError):
    """A signed body that cannot be read as an event. The message says why."""
