"""Encrypts secrets that the metadata DB must be able to return: signing secrets, second
factors, the keys of receipts and that of event keys.

Passwords, sessions and API keys are stored as hashes instead. Uses Fernet: AES-128-CBC with
HMAC-SHA256. Its package takes 7 MB of memory, so it is imported when the first secret is sealed or
opened.
"""

import base64
import hmac
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING

from sqlalchemy import Column, select, update

from penstock.base.durable_files import sync_folder, write_durably
from penstock.base.errors import Unavailable
from penstock.metadb.database import Database
from penstock.metadb.tables import (
    alert_channels,
    event_key_secrets,
    identity_secrets,
    provider_secrets,
    receipt_keys,
    second_factors,
    webhook_secrets,
)
from penstock.settings import Settings

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

KEY_FILE = "secret.key"
"""Default name of the key file in the data folder."""

_PREFIX = "fernet:"
_SEALED_COLUMNS: tuple[Column[str], ...] = (
    provider_secrets.c.secret,
    identity_secrets.c.secret,
    second_factors.c.secret,
    alert_channels.c.secret,
    webhook_secrets.c.secret,
    receipt_keys.c.private_key,
    receipt_keys.c.sums_key,
    event_key_secrets.c.secret,
)
"""All columns with sealed texts. Each of their tables has a column `id`."""


class WrongSecretKey(Exception):
    """The secret keys are malformed, or none of them can open a stored secret."""


class SecretBox:
    """Seals texts with the first key, and opens texts sealed with any of the keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        """keys: at least one key, each 32 bytes in URL-safe base 64.

        Raises `WrongSecretKey` if a key is malformed.
        """
        if not all(map(_is_key, keys)):
            raise WrongSecretKey("a secret key must be 32 bytes in URL-safe base 64")
        self._keys = keys
        self._fingerprint_key = keys[0].encode()

    @classmethod
    def from_settings(cls, settings: Settings) -> "SecretBox":
        """Create a box with the keys from the environment or the key file, which is created if
        missing.
        """
        if settings.secret_keys is not None:
            return cls([key.strip() for key in settings.secret_keys.get_secret_value().split(",")])
        return cls(_keys_of_file(settings.secret_key_file or settings.data / KEY_FILE))

    @cached_property
    def _ciphers(self) -> "list[Fernet]":
        from cryptography.fernet import Fernet

        return [Fernet(key) for key in self._keys]

    def seal(self, text: str) -> str:
        return _PREFIX + self._ciphers[0].encrypt(text.encode()).decode()

    def open(self, stored: str) -> str:
        """Unseal a text. Text that was stored before encryption existed is returned unchanged."""
        if not stored.startswith(_PREFIX):
            return stored
        from cryptography.fernet import InvalidToken, MultiFernet

        try:
            return MultiFernet(self._ciphers).decrypt(stored.removeprefix(_PREFIX)).decode()
        except InvalidToken:
            raise Unavailable(
                "A stored secret cannot be read: the secret key of the installation has changed.",
                code="secret_key_missing",
            ) from None

    def seal_token(self, text: str) -> str:
        """Seal a string for a cookie. The token contains only letters, digits, `-` and `_`."""
        return self._ciphers[0].encrypt(text.encode()).decode().rstrip("=")

    def open_token(self, token: str) -> str:
        """Unseal a token from `seal_token`. Raises `Unavailable` for any other text."""
        if not token.isascii():
            raise Unavailable("This is not a sealed token.", code="secret_key_missing")
        return self.open(_PREFIX + token + "=" * (-len(token) % 4))

    def fingerprint(self, text: str) -> bytes:
        """Return a keyed hash that recognises a text without storing it. It changes with the first
        key.
        """
        return hmac.digest(self._fingerprint_key, text.encode(), "sha256")

    def is_sealed_with_first(self, stored: str) -> bool:
        from cryptography.fernet import InvalidToken

        try:
            self._ciphers[0].decrypt(stored.removeprefix(_PREFIX))
        except InvalidToken:
            return False
        return True


def seal_all(database: Database, box: SecretBox) -> None:
    """Seal every stored secret with the first key, including unsealed ones.

    Raises `WrongSecretKey` if a secret cannot be opened.
    """
    with database.read() as db:
        stored = [
            (column, *row)
            for column in _SEALED_COLUMNS
            for row in db.execute(select(column.table.c.id, column).where(column.is_not(None)))
        ]
    outdated = [row for row in stored if not box.is_sealed_with_first(row[2])]
    if not outdated:
        return
    with database.write() as db:
        for column, row_id, text in outdated:
            try:
                sealed = box.seal(box.open(text))
            except Unavailable:
                raise WrongSecretKey("no secret key decrypts the stored signing secrets") from None
            db.execute(
                update(column.table)
                .where(column.table.c.id == row_id, column == text)
                .values({column.name: sealed})
            )


def _is_key(text: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(text)) == 32
    except ValueError:
        return False


def _keys_of_file(path: Path) -> list[str]:
    if not path.exists():
        _make_key_file(path)
    return path.read_text("ascii").split()


def _make_key_file(path: Path) -> None:
    """Write a new key under a temporary name, then link it to this path once it is on disk.

    Other processes therefore never read half a key, even if this process is killed. Nor does any of
    them seal with a key that a power failure would erase.
    """
    from cryptography.fernet import Fernet

    # `mkstemp` makes the file readable only by this user.
    descriptor, name = mkstemp(prefix=f"{path.name}.", dir=path.parent)
    os.close(descriptor)
    written = Path(name)
    try:
        write_durably(written, Fernet.generate_key() + b"\n")
        with suppress(FileExistsError):  # Another process was faster.
            os.link(written, path)
        sync_folder(path.parent)
    finally:
        written.unlink(missing_ok=True)
