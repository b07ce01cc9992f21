"""PostgreSQL connections on which no wait is endless.

A server that refuses says so at once. One that hangs (a frozen machine, a full disk, a network that
drops packets) says nothing: TCP acknowledges what is sent, and `statement_timeout` needs a server
that still works. So the client has its own time limit for each answer and closes the
connection when it passes.
"""

from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Connection, Engine, create_engine, event, text

_CONNECT_S = (2, 5)  # at least and at most; libpq takes no less
_MARGIN = 1.25  # the server's own limit comes first: its error text says more

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives up on an answer. answer_timeout_s: None for any time."""

    answer_timeout_s: float | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:  # the caller expects that nothing may come, as a listener does
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_timeout_s)
        except errors._WaitTimeout as error:
            self.pgconn.finish()  # an answer that comes later must not meet another statement
            raise psycopg.OperationalError("the server does not answer in time") from error


def options_fault(url: URL) -> str | None:
    """Why libpq does not accept the parameters of a URL (`?sslmode=require`); None: it does."""
    try:
        make_conninfo(**dict.fromkeys(url.query, ""))
    except psycopg.ProgrammingError as error:
        return str(error).strip()
    return None


def engine(url: URL, timeout_s: float, connections: int) -> Engine:
    """timeout_s: the longest time for one statement; half of it for a lock or a free connection.

    connections: at most in the pool; a listener and a migration have their own.

    Parameters of libpq that the URL sets (`?connect_timeout=...`) win.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = {
        "connect_timeout": min(max(_CONNECT_S[0], round(timeout_s)), _CONNECT_S[1]),
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": round(timeout_s * _MARGIN * 1000),
        # A pooler in transaction mode gives the next transaction another connection of the server,
        # which does not know what this one has prepared.
        "prepare_threshold": None,
    }
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=timeout_s / 2,
        connect_args={name: value for name, value in arguments.items() if name not in url.query},
    )

    def connect(_dialect: Any, _record: Any, args: Any, parameters: Any) -> BoundedConnection:
        connection = BoundedConnection.connect(*args, **parameters)
        connection.answer_timeout_s = timeout_s * _MARGIN
        return connection

    def prepare(connection: BoundedConnection, _record: Any) -> None:
        # Not as options of the connection: poolers such as PgBouncer refuse those.
        statement_ms, lock_ms = round(timeout_s * 1000), round(timeout_s * 500)
        connection.execute(f"SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}")
        connection.commit()

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", prepare)
    return engine


def lift_timeouts(connection: Connection) -> None:
    """Let the statements of this transaction take any time; its connection is not used again."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    driver.answer_timeout_s = None
    connection.detach()
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SET LOCAL lock_timeout = 0"))
