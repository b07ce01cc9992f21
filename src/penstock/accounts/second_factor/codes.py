"""Codes of authenticator apps (TOTP, RFC 6238: six digits, 30 seconds, SHA-1) and recovery codes.

No I/O.
"""

import hmac
import secrets
from typing import Any

import pyotp
import segno

RECOVERY_CODES = 10
"""Number of codes that a user gets at once."""

_STEP_MS = 30_000
_DIGITS = 6
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RECOVERY_CHARS = 16  # 80 bits: too many to find a code from its hash
_GROUP_CHARS = 4


def new_totp_secret() -> str:
    """Return 160 random bits in base 32."""
    return pyotp.random_base32()


def totp_uri(secret: str, email: str) -> str:
    """Return the `otpauth://` URI, which authenticator apps read from a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name="Penstock")


def qr_code(uri: str) -> str:
    """Return the URI as a QR code, in a data URI."""
    code: Any = segno.make_qr(uri, error="m")
    image: str = code.svg_data_uri(scale=4, border=4, dark="#000", light="#fff")
    return image


def matching_step(secret: str, code: str, now_ms: int) -> int | None:
    """Return the time step that the code belongs to: the current, previous or next one.

    Returns None if the code does not match. Neighbouring steps are accepted because phone clocks
    differ, and typing takes time.
    """
    if len(code) != _DIGITS or not code.isascii() or not code.isdigit():
        return None
    now, totp = now_ms // _STEP_MS, pyotp.TOTP(secret)
    for step in (now, now - 1, now + 1):
        if hmac.compare_digest(totp.generate_otp(step), code):
            return step
    return None


def new_recovery_codes() -> list[str]:
    """Return codes such as `3kf9-t0bw-xq52-8zme`, each with 80 random bits."""
    return [_recovery_code() for _ in range(RECOVERY_CODES)]


def _recovery_code() -> str:
    chars = "".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARS))
    groups = range(0, _RECOVERY_CHARS, _GROUP_CHARS)
    return "-".join(chars[start : start + _GROUP_CHARS] for start in groups)


def bare_code(typed: str) -> str:
    """Return a code in lower case, without the spaces and hyphens that people type."""
    return typed.replace(" ", "").replace("-", "").lower()
