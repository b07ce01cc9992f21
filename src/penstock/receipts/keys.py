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
from penstock.receipts.signatures import new_key_pair, sign


class ReceiptKey(NamedTuple):
    """A key, whose secrets are sealed. public: in base64. private: None once another key has
    replaced it. sums_key: keys the hashes of the receipts that it signed. retired_at_ms: None while
    it signs.
    """

    id: str
    public: str
    private: str | None
    sums_key: str
    created_at_ms: int
    retired_at_ms: int | None


class ReceiptKeys:
    """Reads and uses the keys, and creates the first one. Only the methods that use a secret of a
    key open it.
    """

    def __init__(self, database: Database, box: SecretBox, clock: Clock) -> None:
        self._database, self._box, self._clock = database, box, clock

    def all(self) -> list[ReceiptKey]:
        """Return all keys, the newest first."""
        with self._database.read() as db:
            return _all(db)

    def find(self, key_id: str) -> ReceiptKey | None:
        return next((key for key in self.all() if key.id == key_id), None)

    def current(self) -> ReceiptKey:
        """Return the key that signs. Creates it for the first receipt, on one node only."""
        if (key := _signing(self.all())) is not None:
            return key
        with self._database.write() as db:
            store.lock_keys(db)
            if _signing(_all(db)) is None:
                self._add(db)
        return self.current()

    def rotate(self) -> str:
        """Replace the key that signs. Returns the ID of the new key."""
        with self._database.write() as db:
            store.lock_keys(db)
            store.retire_keys(db, self._clock())
            return self._add(db)

    def sign(self, key: ReceiptKey, text: str) -> str:
        """Return the signature of a text in base64. key: see `current`."""
        return sign(self._box.open(key.private or ""), text)

    def hash_key(self, key: ReceiptKey, receipt_id: str) -> tuple[int, int]:
        """Return the key of a receipt's hashes, both halves as numbers.

        The keys of two receipts differ, so that equal sums in two files mean nothing.
        """
        sums_key = b64decode(self._box.open(key.sums_key))
        digest = hmac.digest(sums_key, receipt_id.encode(), "sha256")
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")

    def _add(self, db: Connection) -> str:
        now_ms = self._clock()
        pair, key_id = new_key_pair(), new_id("rck", now_ms)
        store.add_key(
            db,
            {
                "id": key_id,
                "public_key": pair.public,
                "private_key": self._box.seal(pair.private),
                "sums_key": self._box.seal(b64encode(token_bytes(32)).decode()),
                "created_at": now_ms,
            },
        )
        return key_id


def _all(db: Connection) -> list[ReceiptKey]:
    return [
        ReceiptKey(
            row.id,
            row.public_key,
            row.private_key,
            row.sums_key,
            row.created_at,
            row.retired_at,
        )
        for row in store.keys(db)
    ]


def _signing(keys: list[ReceiptKey]) -> ReceiptKey | None:
    return next((key for key in keys if key.retired_at_ms is None), None)
