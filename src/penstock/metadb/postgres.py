"""PostgreSQL connections with a time limit on every wait.

A server that rejects a connection does so at once. A server that hangs (a frozen machine, a full
disk, a network that drops packets) sends nothing. TCP may still acknowledge packets, and
`statement_timeout` needs a working server. The client therefore limits the time for each answer,
and closes the connection when it is exceeded.
"""

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text

from penstock.base.optional_packages import install_command

_CONNECT_S = (2, 5)  # Minimum and maximum. libpq does not support a lower minimum.
# Lets the server's own limit expire first, because the server's error message is more specific.
_MARGIN = 1.25


def options_fault(url: URL) -> str | None:
    """Return why libpq rejects the parameters of a URL (`?sslmode=require`), or how to install
    psycopg if it is missing; None if both are right.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo
    except ImportError:
        return f"PostgreSQL needs more packages. Run: {install_command('postgresql')}"
    try:
        make_conninfo(**dict.fromkeys(url.query, ""))
    except ProgrammingError as error:
        return str(error).strip()
    return None


def engine(url: URL, timeout_s: float, connections: int) -> Engine:
    """Create the engine.

    timeout_s: maximum seconds for one statement. Waiting for locks and free connections may take
    half of it. connections: maximum size of the pool; a listener and a migration have their own
    connections. libpq parameters in the URL (`?connect_timeout=...`) take precedence.
    """
    from penstock.metadb.bounded_connection import BoundedConnection

    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = {
        "connect_timeout": min(max(_CONNECT_S[0], round(timeout_s)), _CONNECT_S[1]),
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": round(timeout_s * _MARGIN * 1000),
        # A pooler in transaction mode may use another server connection for the next transaction.
        # Statements prepared on this connection are unknown there.
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
        # Set these limits with statements, because poolers such as PgBouncer reject them as
        # connection options.
        statement_ms, lock_ms = round(timeout_s * 1000), round(timeout_s * 500)
        connection.execute(f"SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}")
        connection.commit()

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", prepare)
    return engine


def lift_timeouts(connection: Connection) -> None:
    """Lift the time limits for this transaction. Its connection is not reused afterwards."""
    from penstock.metadb.bounded_connection import BoundedConnection

    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    driver.answer_timeout_s = None
    connection.detach()
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SET LOCAL lock_timeout = 0"))
