"""The keys of the installation that sign receipts. Methods block on the metadata DB.

One key signs. A key that was replaced never signs again, because its private key is erased, but its
public key stays listed, so that its receipts can be verified.
"""

import hmac
from base64 import b64decode, b64encode
from secrets import token_bytes
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.base.clock import Clock
from penstock.base.ids import new_id
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox
from penstock.receipts import store
from penstock.receipts.signatures import new_key_pair


class SigningKey(NamedTuple):
    """A key. public: in base64. private: None once another key has replaced it. sums_key: keys the
    hashes of the receipts that it signed. retired_at_ms: None while it signs.
    """

    id: str
    public: str
    private: str | None
    sums_key: bytes
    created_at_ms: int
    retired_at_ms: int | None

    def hash_key(self, receipt_id: str) -> tuple[int, int]:
        """Return the key of a receipt's hashes, both halves as numbers.

        The keys of two receipts differ, so that equal sums in two files mean nothing.
        """
        digest = hmac.digest(self.sums_key, receipt_id.encode(), "sha256")
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


class ReceiptKeys:
    """Reads the keys, and creates the first one."""

    def __init__(self, database: Database, box: SecretBox, clock: Clock) -> None:
        self._database, self._box, self._clock = database, box, clock

    def all(self) -> list[SigningKey]:
        """Return all keys, the newest first."""
        with self._database.read() as db:
            rows = store.keys(db)
        return [
            SigningKey(
                row.id,
                row.public_key,
                None if row.private_key is None else self._box.open(row.private_key),
                b64decode(self._box.open(row.sums_key)),
                row.created_at,
                row.retired_at,
            )
            for row in rows
        ]

    def find(self, key_id: str) -> SigningKey | None:
        return next((key for key in self.all() if key.id == key_id), None)

    def current(self) -> SigningKey:
        """Return the key that signs. Creates it for the first receipt."""
        for key in self.all():
            if key.retired_at_ms is None:
                return key
        with self._database.write() as db:
            _add(db, self._box, self._clock())
        return self.current()

    def rotate(self) -> str:
        """Replace the key that signs. Returns the ID of the new key."""
        now_ms = self._clock()
        with self._database.write() as db:
            store.retire_keys(db, now_ms)
            return _add(db, self._box, now_ms)


def _add(db: Connection, box: SecretBox, now_ms: int) -> str:
    pair, key_id = new_key_pair(), new_id("rck", now_ms)
    store.add_key(
        db,
        {
            "id": key_id,
            "public_key": pair.public,
            "private_key": box.seal(pair.private),
            "sums_key": box.seal(b64encode(token_bytes(32)).decode()),
            "created_at": now_ms,
        },
    )
    return key_id
