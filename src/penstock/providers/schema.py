"""What goes over the wire: signing secrets, and the answer to a webhook."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr

from penstock.base.clock import iso, iso_or_none
from penstock.events.model import Status
from penstock.events.records import Warned
from penstock.http.schema import Input, Record, RuleBroken
from penstock.providers.model import Configured, SigningSecret
from penstock.providers.service import Taken

DAY_S = 86_400
MAX_SECRET_CHARS = 500


def _secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not 1 <= len(text) <= MAX_SECRET_CHARS:
        raise RuleBroken("too_long" if text else "too_short", f"Must have 1 to {MAX_SECRET_CHARS} characters.")
    if not (text.isascii() and text.isprintable() and " " not in text) or text == "whsec_":
        raise RuleBroken("not_a_secret", "Must be the signing secret as the provider shows it, without blanks.")
    return value


class NewSecret(Input):
    """Makes a signing secret the current one. The earlier ones are taken a while longer, for a rotation without a gap."""

    signing_secret: Annotated[SecretStr, AfterValidator(_secret)]
    previous_valid_seconds: Annotated[
        int, Field(ge=0, le=7 * DAY_S, description="how much longer the earlier secrets are taken; 0 ends them at once")
    ] = DAY_S


class SecretRecord(Record):
    """A secret in force; the secret itself is never shown."""

    created_at: str
    valid_until: str | None = Field(description="null for the current one")

    @classmethod
    def of(cls, secret: SigningSecret) -> Self:
        return cls(created_at=iso(secret.created_at_ms), valid_until=iso_or_none(secret.valid_until_ms))


class ProviderRecord(Record):
    """A provider that a website takes webhooks of."""

    provider: str
    webhook_url: str = Field(description="where the provider sends its webhooks")
    secrets: tuple[SecretRecord, ...]

    @classmethod
    def of(cls, configured: Configured, base_url: str) -> Self:
        return cls(
            provider=configured.provider,
            webhook_url=f"{base_url}/api/providers/{configured.provider}/{configured.website_id}",
            secrets=tuple(SecretRecord.of(secret) for secret in configured.secrets),
        )


class WebhookRecord(Record):
    """What became of a webhook. event: what it is called in Penstock. Of a duplicate, the ID is the first event's."""

    status: Status
    event_id: str
    event: str
    warnings: tuple[Warned, ...] = ()

    @classmethod
    def of(cls, taken: Taken) -> Self:
        receipt = taken.receipt
        return cls(status=receipt.status, event_id=receipt.event_id, event=taken.name, warnings=Warned.all_of(receipt.warnings))
