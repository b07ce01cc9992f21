"""Passwords, tokens and API keys. Only hashes are stored; a secret is never logged or quoted."""

import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

KEY_PREFIX_CHARS = 12

_hasher = PasswordHasher()
_DUMMY_HASH = _hasher.hash(secrets.token_urlsafe())
"""Compared with the password of an unknown account, so that timing does not reveal accounts."""


def new_token() -> str:
    """256 random bits in URL-safe base 64, for cookies, invitations and setup tokens."""
    return secrets.token_urlsafe(32)


def new_api_key() -> str:
    return "psk_" + new_token()


def hash_secret(secret: str) -> bytes:
    """SHA-256 of a random token, for storage. Unsuitable for passwords: see `password_hash`."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def password_hash(password: str) -> str:
    """argon2id with the library's default parameters (RFC 9106, low memory): 50 ms and 64 MB."""
    return _hasher.hash(password)


def password_matches(password: str, stored_hash: str | None) -> bool:
    """Whether the password fits. stored_hash: None for an unknown account, which takes as long."""
    try:
        return _hasher.verify(stored_hash or _DUMMY_HASH, password) and stored_hash is not None
    except VerifyMismatchError:
        return False
