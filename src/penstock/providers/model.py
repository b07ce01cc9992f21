"""Plain types for payment providers. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.accounts.model import SigningSecret
from penstock.base.payment_providers import Provider

Properties = dict[str, str | int | float | bool]
Headers = Mapping[str, str]
"""Headers of a webhook. The keys are lower case."""
Key = str | bytes
"""A key of signatures, as text or decoded."""


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """A provider whose webhooks a website accepts.

    secrets: the valid signing secrets, with the current secret first.
    """

    provider: Provider
    website_id: str
    secrets: tuple[SigningSecret, ...]


class Delivery(NamedTuple):
    """A webhook request."""

    headers: Headers
    body: bytes


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


def _text_key(secret: str) -> Sequence[Key]:
    return [secret]


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """How a provider signs its webhooks, and what they contain.

    headers: names of the headers that `verify` and `parse` read. verify: whether a recent signature
    of a body is from a key, at a time in milliseconds. parse: reads the event in a body, or raises
    `NotAnEvent`. is_secret: whether a text has the format of the provider's secrets. keys: returns
    the possible keys for a secret.
    """

    headers: tuple[str, ...]
    verify: Callable[[Headers, str, Key, int], bool]
    parse: Callable[[Any, Headers], ProviderEvent]
    is_secret: Callable[[str], bool] = bool
    keys: Callable[[str], Sequence[Key]] = _text_key


IDENTITY_KEYS = ("visitorId", "userId", "websiteId")
"""Metadata keys that identify the event's visitor, user and website."""


class NotAnEvent(ValueError):
    """Raised when a signed body is not a readable event. The message gives the reason."""
