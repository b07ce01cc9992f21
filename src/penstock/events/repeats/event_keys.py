"""Recognises repeated events by their keys."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from secrets import token_bytes

from sqlalchemy import Connection

from penstock.base.errors import StoreConflict
from penstock.base.ids import ImportId, ScopeId
from penstock.events.model import scope_tag
from penstock.events.repeats import store
from penstock.events.repeats.earlier import store as earlier_store
from penstock.events.repeats.model import (
    DedupeRecord,
    EventKey,
    Origin,
    event_id_of,
    number_ms,
    visitor_of,
)
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox
from penstock.settings import DAY_S

_SECRET_BYTES = 32


class EventKeys:
    """The stored keys of events. They are hashes of dedupe keys, keyed with a secret of the
    installation, so that the database alone does not show which IDs the clients use.

    Keys of earlier versions are found too, until a worker has moved all of them.
    """

    def __init__(self, database: Database, box: SecretBox, dedupe_days: int) -> None:
        """dedupe_days: number of days for which repeats are recognised."""
        self._database, self._box = database, box
        self.lifetime_ms = dedupe_days * DAY_S * 1000
        self._secret = b""
        self.has_earlier = True
        """Whether keys of an earlier version may be left."""
        self._origins: dict[int, Origin] = {}
        self._numbers: dict[tuple[ScopeId, ImportId | None], int] = {}
        self._uncommitted: dict[tuple[ScopeId, ImportId | None], int] = {}

    def open(self) -> None:
        """Read the secret, and create it before the first event. Call this before all else.

        Raises `Unavailable` if the installation's secret key has changed.
        """
        if self._secret:
            return
        with self._database.read() as db:
            sealed = store.secret(db)
            self.has_earlier = earlier_store.any_left(db)
        if sealed is None:
            try:
                with self._database.write() as db:
                    new = b64encode(token_bytes(_SECRET_BYTES)).decode()
                    store.add_secret(db, self._box.seal(new))
            except StoreConflict:
                pass  # Another node created it first.
            with self._database.read() as db:
                sealed = store.secret(db)
        assert sealed is not None
        self._secret = b64decode(self._box.open(sealed))

    def hashes(self, dedupe_keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the keys under which dedupe keys are stored, by dedupe key."""
        secret = self._secret
        return {key: blake2b(key, digest_size=16, key=secret).digest() for key in dedupe_keys}

    def find(
        self, connection: Connection, keys: Mapping[bytes, bytes]
    ) -> dict[bytes, DedupeRecord]:
        """Return the records of dedupe keys.

        keys: stored key by dedupe key.
        """
        records = dict[bytes, DedupeRecord]()
        if self.has_earlier:
            # Read these first: a key that is moved in between is found among the others.
            records = earlier_store.find(connection, list(keys))
        rows = {row.key: row for row in store.find(connection, keys.values())}
        if rows:
            self._read_origins(connection, {row.origin for row in rows.values()})
            records |= {
                dedupe_key: self._record(rows[key])
                for dedupe_key, key in keys.items()
                if key in rows
            }
        return records

    def _record(self, row: EventKey) -> DedupeRecord:
        return DedupeRecord(
            row.body,
            event_id_of(row),
            visitor_of(row),
            number_ms(row.number),
            self._origins[row.origin].import_id,
        )

    def _read_origins(self, connection: Connection, numbers: Collection[int]) -> None:
        if unknown := [number for number in numbers if number not in self._origins]:
            self._origins |= store.origins(connection, unknown)

    def remove(self, connection: Connection, keys: Mapping[bytes, bytes], up_to: int) -> None:
        """Remove keys with numbers up to `up_to`. keys: stored key by dedupe key."""
        if self.has_earlier:
            earlier_store.remove(connection, list(keys))
        store.remove(connection, keys.values(), up_to)

    def is_expired(self, created_at_ms: int, now_ms: int) -> bool:
        """Whether a key that was created then may be used again."""
        return created_at_ms < now_ms - self.lifetime_ms

    def origin(self, connection: Connection, scope_id: ScopeId, import_id: ImportId | None) -> int:
        """Return the number of the origin of an event, in this transaction."""
        pair = scope_id, import_id
        number = self._numbers.get(pair) or self._uncommitted.get(pair)
        if number is None:
            origin = Origin(scope_tag(scope_id), import_id)
            number = self._uncommitted[pair] = store.origin_number(connection, origin)
        return number

    def begin(self) -> None:
        """Forget the origins of a transaction that failed."""
        self._uncommitted.clear()

    def commit(self) -> None:
        """Remember the origins of a transaction that succeeded."""
        self._numbers |= self._uncommitted
        self._uncommitted.clear()
