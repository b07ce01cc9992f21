"""Verifies webhook signatures, and checks the age of a delivery against the service's clock.

For Standard Webhooks, it uses `sign` of the library, because `verify` reads the system clock.
"""

import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from secrets import compare_digest

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from penstock.base.patterns import Pattern, is_digits
from penstock.providers.model import Delivery, Headers, Key, WebhookRules

TOLERANCE_S = 300
"""Maximum seconds between the time of signing and now, in either direction."""

_MAX_HEADER_CHARS = 4096
_MAX_SECONDS_DIGITS = 12
_BASE64 = Pattern(r"(?:whsec_)?[A-Za-z0-9+/]+={0,2}")


def is_signed(rules: WebhookRules, delivery: Delivery, secrets: Iterable[str], now_ms: int) -> bool:
    """Whether a delivery has a recent signature from one of the secrets. Never raises."""
    headers = {name: delivery.headers[name] for name in rules.headers if name in delivery.headers}
    if len(headers) < len(rules.headers) or any(
        not text.isascii() or not 0 < len(text) <= _MAX_HEADER_CHARS for text in headers.values()
    ):
        return False
    try:
        body = delivery.body.decode()
    except UnicodeDecodeError:
        return False
    keys = [key for secret in secrets for key in rules.keys(secret)]
    return any(rules.verify(headers, body, key, now_ms) for key in keys)


def is_base64(secret: str) -> bool:
    """Whether a secret is base64, with or without a `whsec_` prefix, as the standard requires."""
    try:
        return bool(_BASE64.fullmatch(secret) and Webhook(secret))
    except (ValueError, EmptyWebhookSecretError):
        return False


def polar_keys(secret: str) -> Sequence[Key]:
    """Return the possible keys for a secret of Polar.

    Polar signs with the secret's text, but the standard decodes it first, so we try both.
    """
    is_standard = secret.startswith("whsec_") and is_base64(secret)
    return [secret.encode(), secret] if is_standard else [secret.encode()]


def _is_recent(seconds: str, now_ms: int) -> bool:
    return (
        len(seconds) <= _MAX_SECONDS_DIGITS
        and is_digits(seconds)
        and abs(int(seconds) * 1000 - now_ms) <= TOLERANCE_S * 1000
    )


def verify_stripe(headers: Headers, body: str, key: Key, now_ms: int) -> bool:
    """Source: https://docs.stripe.com/webhooks/signature"""
    parts = [part.partition("=")[::2] for part in headers["stripe-signature"].split(",")]
    times = [value for name, value in parts if name == "t"]
    # Require exactly one timestamp, because only one can be signed.
    if len(times) != 1 or not _is_recent(times[0], now_ms) or isinstance(key, bytes):
        return False
    expected = hmac.new(key.encode(), f"{times[0]}.{body}".encode(), sha256).hexdigest()
    return any(name == "v1" and compare_digest(expected, value) for name, value in parts)


def verify_standard(headers: Headers, body: str, key: Key, now_ms: int) -> bool:
    seconds = headers["webhook-timestamp"]
    if not _is_recent(seconds, now_ms):
        return False
    signed_at = datetime.fromtimestamp(int(seconds), UTC)
    expected = Webhook(key).sign(headers["webhook-id"], signed_at, body)
    return any(
        compare_digest(expected, signature) for signature in headers["webhook-signature"].split(" ")
    )
