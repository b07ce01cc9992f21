"""Secrets: how they are made, and what of them is kept. A secret itself is never stored, logged or part of an error."""

import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

KEY_PREFIX_CHARS = 12

_hasher = PasswordHasher()
_NOBODY = _hasher.hash(secrets.token_urlsafe())
"""The hash that the password of an unknown account is held against, so that the answer takes as long as for a known one."""


def new_token() -> str:
    """256 random bits, as a cookie or a setup token carries them."""
    return secrets.token_urlsafe(32)


def new_api_key() -> str:
    return "psk_" + new_token()


def fingerprint(secret: str) -> bytes:
    """SHA-256 of a random secret: what is kept of it. Fit for secrets of many random bits only, never for a password."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def same_secret(given: str, expected: str) -> bool:
    """Compare without telling by the time taken where the two differ."""
    return secrets.compare_digest(fingerprint(given), fingerprint(expected))


def password_hash(password: str) -> str:
    """argon2id with the library's parameters (RFC 9106, low memory). Takes about 50 ms and 64 MB on purpose."""
    return _hasher.hash(password)


def password_matches(password: str, kept_hash: str | None) -> bool:
    """Whether this is the password. kept_hash: None when there is no such account; the work is the same."""
    try:
        return _hasher.verify(kept_hash or _NOBODY, password) and kept_hash is not None
    except VerifyMismatchError:
        return False
