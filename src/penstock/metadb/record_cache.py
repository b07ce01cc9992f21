"""Caches for records that any node may change."""

from collections.abc import Hashable
from typing import TypeVar

from sqlalchemy import Connection

from penstock.base.ttl_cache import TtlCache
from penstock.metadb.database import Database

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecordCache(TtlCache[K, V]):
    """Forgets all records when a node announces a change of their topic.

    A node that misses an announcement reads the records again after `ttl_s`.
    """

    def __init__(self, database: Database, topic: str, ttl_s: float) -> None:
        super().__init__(ttl_s)
        self._database, self._topic = database, topic
        database.changes.subscribe(topic, self.clear)

    def announce(self, db: Connection) -> None:
        """Make other nodes forget all records of the topic once the transaction commits."""
        self._database.changes.announce(db, self._topic)
