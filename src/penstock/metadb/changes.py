"""Notifies other nodes of changes in the metadata DB with PostgreSQL's NOTIFY.

A change is announced by its topic, such as `websites`, in its own transaction: other nodes are
notified after the commit, and never after a rollback. A node misses announcements while its
connection is broken, so after reconnecting it treats every topic as changed. With SQLite there is
only one process, so nothing is announced.
"""

from collections import defaultdict
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from penstock.base.errors import StoreUnavailable

if TYPE_CHECKING:
    import psycopg

_WAIT_S = 0.25
"""Maximum time that a stopping node waits for its listener, in seconds."""
_PROBE_S = 15.0
"""Seconds between connection checks. They are needed because a hung server sends nothing."""


class Changes:
    """Announces changed topics, and calls the subscribers of topics that any node announces."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_shared = engine.dialect.name == "postgresql"
        """Whether other nodes may use the database."""
        self._subscribers = defaultdict[str, list[Callable[[], object]]](list)
        self._listener: Connection | None = None
        self._probed_s = 0.0

    def subscribe(self, topic: str, on_change: Callable[[], object]) -> None:
        """Call `on_change` in a worker thread after every change, including this node's changes."""
        self._subscribers[topic].append(on_change)

    def announce(self, db: Connection, topic: str) -> None:
        """Notify every node of the change when the caller's transaction commits."""
        if self.is_shared:
            db.execute(text("SELECT pg_notify('penstock_changes', :topic)"), {"topic": topic})

    def receive(self) -> float:
        """Wait a moment for announcements, and call their subscribers. A worker runs this as its
        step.

        Raises `StoreUnavailable` if the connection is lost; the next call reconnects.
        """
        import psycopg

        try:
            if self._listener is None:
                self._listener = self._listen()
                for topic in list(self._subscribers):
                    self._pass_on(topic)
            for notification in _driver(self._listener).notifies(timeout=_WAIT_S):
                self._pass_on(notification.payload)
            if monotonic() - self._probed_s > _PROBE_S:
                self._listener.execute(text("SELECT 1"))
                self._probed_s = monotonic()
        except (psycopg.Error, SQLAlchemyError) as error:
            self.close()
            raise StoreUnavailable(reason=str(error).partition("\n")[0]) from error
        return 0.0

    def _listen(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # the listener must not occupy a connection of the pool
        connection.execute(text("LISTEN penstock_changes"))
        self._probed_s = monotonic()
        return connection

    def _pass_on(self, topic: str) -> None:
        for on_change in self._subscribers.get(topic, ()):
            on_change()

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.invalidate()
            listener.close()


def _driver(connection: Connection) -> "psycopg.Connection[object]":
    import psycopg

    driver = connection.connection.dbapi_connection
    assert isinstance(driver, psycopg.Connection)
    return driver
