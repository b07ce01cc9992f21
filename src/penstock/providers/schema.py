"""Wire types for signing secrets and webhooks."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr

from penstock.events.model import Status
from penstock.events.schema import WarningRecord
from penstock.http.schema import Input, Iso, Record, RuleBroken
from penstock.providers.model import ProviderConfig
from penstock.settings import DAY_S

MAX_SECRET_CHARS = 500


def _secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not 1 <= len(text) <= MAX_SECRET_CHARS:
        raise RuleBroken(
            "too_long" if text else "too_short", f"Must have 1 to {MAX_SECRET_CHARS} characters."
        )
    if not (text.isascii() and text.isprintable() and " " not in text) or text == "whsec_":
        raise RuleBroken(
            "not_a_secret", "Must be the signing secret as the provider shows it, without spaces."
        )
    return value


class NewSecret(Input):
    """A new signing secret. Earlier secrets stay valid for a while, so you can rotate safely."""

    signing_secret: Annotated[
        SecretStr,
        AfterValidator(_secret),
        Field(json_schema_extra={"minLength": 1, "maxLength": MAX_SECRET_CHARS}),
    ]
    previous_valid_seconds: Annotated[int, Field(ge=0, le=7 * DAY_S)] = DAY_S
    """Seconds for which earlier secrets stay valid; 0 revokes them at once."""


class SecretRecord(Record):
    """The validity of a secret. The secret itself is never shown."""

    created_at: Iso
    valid_until: Iso | None
    """Null for the current secret."""


class ProviderRecord(Record):
    """A provider whose webhooks a website accepts."""

    provider: str
    webhook_url: str
    """The URL to enter at the provider."""
    secrets: tuple[SecretRecord, ...]

    @classmethod
    def from_config(cls, config: ProviderConfig, base_url: str) -> Self:
        path = f"/api/providers/{config.provider}/{config.website_id}"
        return cls.from_object(config, webhook_url=base_url + path)


class WebhookRecord(Record):
    """The result of a webhook. For a duplicate, `eventId` is the ID of the first event."""

    status: Status
    event_id: str
    event: str
    """Name of the event in Penstock."""
    warnings: tuple[WarningRecord, ...] = ()
