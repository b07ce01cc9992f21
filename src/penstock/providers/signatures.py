"""Whether a delivery was signed with one of a website's secrets, and just now.

The libraries compute the signatures. The age of a delivery is checked here, by the service's own clock: `stripe` leaves its check out when
told so, and of `standardwebhooks` we use `sign` instead of `verify`, which asks the system for the time.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from secrets import compare_digest

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError
from stripe import SignatureVerificationError, WebhookSignature

from penstock.providers.model import Delivery, Provider

TOLERANCE_S = 300
"""How far the time of signing may lie from now, either way."""

SIGNATURE_HEADERS: Mapping[Provider, tuple[str, ...]] = {
    Provider.STRIPE: ("stripe-signature",),
    Provider.POLAR: ("webhook-id", "webhook-timestamp", "webhook-signature"),
    Provider.STANDARD: ("webhook-id", "webhook-timestamp", "webhook-signature"),
}

_MAX_HEADER_CHARS = 4096
_SECONDS = re.compile(r"[0-9]{1,12}")
_BASE64 = re.compile(r"(?:whsec_)?[A-Za-z0-9+/]+={0,2}")


def is_signed(provider: Provider, delivery: Delivery, secrets: Iterable[str], now_ms: int) -> bool:
    """False for anything that is missing, malformed, too old, too new or signed with another secret. Raises nothing."""
    wanted = SIGNATURE_HEADERS[provider]
    headers = {name: delivery.headers[name] for name in wanted if name in delivery.headers}
    if len(headers) < len(wanted) or any(not text.isascii() or not 0 < len(text) <= _MAX_HEADER_CHARS for text in headers.values()):
        return False
    try:
        body = delivery.body.decode()
    except UnicodeDecodeError:
        return False
    signed = _is_signed_as_stripe if provider is Provider.STRIPE else _is_signed_by_standard
    return any(signed(headers, body, key, now_ms) for secret in secrets for key in _keys(provider, secret))


def fits(provider: Provider, secret: str) -> bool:
    """Whether signatures can be made with it: Standard Webhooks wants base64, with `whsec_` before it or not."""
    return bool(secret.removeprefix("whsec_")) and (provider is not Provider.STANDARD or _decodes(secret))


def _decodes(secret: str) -> bool:
    try:
        return bool(_BASE64.fullmatch(secret) and Webhook(secret))
    except (ValueError, EmptyWebhookSecretError):
        return False


def _keys(provider: Provider, secret: str) -> list[str | bytes]:
    """What is signed with. Polar takes the secret's text as it stands where the standard would decode it; both are tried for Polar."""
    if provider is not Provider.POLAR:
        return [secret]
    return [secret.encode(), secret] if secret.startswith("whsec_") and _decodes(secret) else [secret.encode()]


def _is_recent(seconds: str, now_ms: int) -> bool:
    return bool(_SECONDS.fullmatch(seconds)) and abs(int(seconds) * 1000 - now_ms) <= TOLERANCE_S * 1000


def _is_signed_as_stripe(headers: Mapping[str, str], body: str, key: str | bytes, now_ms: int) -> bool:
    header = headers["stripe-signature"]
    # One time alone: of several the library would sign the first, and we might judge another.
    times = [rest for name, _, rest in (item.partition("=") for item in header.split(",")) if name == "t"]
    if len(times) != 1 or not _is_recent(times[0], now_ms) or isinstance(key, bytes):
        return False
    try:
        return bool(WebhookSignature.verify_header(body, header, key, tolerance=None))
    except SignatureVerificationError:
        return False


def _is_signed_by_standard(headers: Mapping[str, str], body: str, key: str | bytes, now_ms: int) -> bool:
    seconds = headers["webhook-timestamp"]
    if not _is_recent(seconds, now_ms):
        return False
    expected = Webhook(key).sign(headers["webhook-id"], datetime.fromtimestamp(int(seconds), UTC), body)
    return any(compare_digest(expected, given) for given in headers["webhook-signature"].split(" "))
