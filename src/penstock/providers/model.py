"""Plain types of the providers' room. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Provider(StrEnum):
    """Who sends webhooks; the value is the spelling in addresses. STANDARD: any sender that follows Standard Webhooks."""

    STRIPE = "stripe"
    POLAR = "polar"
    STANDARD = "standardwebhooks"


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A secret that signatures may be made with. valid_until_ms: None for the current one, set once another took its place."""

    id: str
    secret: str = field(repr=False)
    created_at_ms: int
    valid_until_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.valid_until_ms is None or now_ms < self.valid_until_ms


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider that a website takes webhooks of. secrets: those in force, the current one first."""

    provider: Provider
    website_id: str
    secrets: tuple[SigningSecret, ...]


class Delivery(NamedTuple):
    """A webhook as it came. headers: by lower-case name."""

    headers: Mapping[str, str]
    body: bytes


class Meaning(NamedTuple):
    """What a provider's type of event is called here. amount: the field of the provider's object that has the amount, if one does."""

    name: str
    amount: str | None = None


class ProviderEvent(NamedTuple):
    """An event as the provider told it.

    id: the provider's own ID of the event. type: its own type. name: the transaction event; None for a type that has no meaning here.
    told: what we read of the provider's object, as properties. metadata: what the provider's customer put there, still unchecked.
    customer_id, email: whom the provider says it was; for matching only.
    """

    id: str
    type: str
    name: str | None
    occurred_at_ms: int
    told: Mapping[str, str | int | float | bool]
    metadata: Any
    customer_id: str | None
    email: str | None


class NotAnEvent(ValueError):
    """A signed body that no event can be read from. The message says why."""
