"""Passwords, tokens and API keys. Only hashes are stored; a secret is never logged or quoted."""

import hashlib
import secrets
from base64 import b64encode

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

KEY_PREFIX_CHARS = 12

_hasher = PasswordHasher()


def new_token() -> str:
    """Return 256 random bits in URL-safe base 64, for cookies, invitations and setup tokens."""
    return secrets.token_urlsafe(32)


def new_api_key() -> str:
    return "psk_" + new_token()


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 hash of a random token, for storage. For passwords, use
    `password_hash`.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def password_hash(password: str) -> str:
    """Hash a password with argon2id and the library's default parameters (RFC 9106, low memory).

    Takes 50 ms and 64 MB of memory.
    """
    return _hasher.hash(password)


def password_matches(password: str, stored_hash: str | None) -> bool:
    """Whether the password is correct.

    stored_hash: None if the account is unknown. The check then takes just as long.
    """
    try:
        return (
            _hasher.verify(stored_hash or unusable_password_hash(), password)
            and stored_hash is not None
        )
    except VerifyMismatchError:
        return False


def unusable_password_hash() -> str:
    """Return a hash that no password matches, with the parameters of real hashes.

    Users who join by single sign-on have such a hash until they reset their password. A password
    for an unknown account is also compared with such a hash, so that timing does not reveal which
    accounts exist. The hash consists of random bytes, so creating it is cheap.
    """
    cost = f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    salt, digest = (
        b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (_hasher.salt_len, _hasher.hash_len)
    )
    return f"$argon2id$v=19${cost}${salt}${digest}"
