"""Measures the self-join in PostgreSQL, which is installed from the machine's packages."""

from pathlib import Path

import psycopg
from tests.postgres import PostgresServer, program_folder

from bench.other_engines import LIMIT_S, self_join
from bench.timing import best_seconds


def seconds(file: Path, rounds: int) -> float | None:
    """Return the best time of the self-join over a table loaded from CSV, with an index for the
    join.
    """
    folder = program_folder()
    assert folder is not None, "PostgreSQL is not installed (Debian: apt install postgresql)"
    server = PostgresServer(folder)
    try:
        with psycopg.connect(server.fresh(), autocommit=True) as connection:
            connection.execute("CREATE TABLE events (attempt text, name text, ms bigint)")
            with (
                file.open("rb") as content,
                connection.cursor().copy("COPY events FROM STDIN (FORMAT csv)") as copy,
            ):
                while chunk := content.read(1 << 20):
                    copy.write(chunk)
            connection.execute("SET maintenance_work_mem = '1GB'")
            connection.execute("CREATE INDEX ON events (name, attempt, ms)")
            connection.execute("VACUUM ANALYZE events")
            connection.execute("SET work_mem = '512MB'")
            connection.execute(f"SET statement_timeout = '{LIMIT_S}s'")
            query = {"": lambda: connection.execute(self_join().encode()).fetchall()}
            return best_seconds(query, rounds)[""]
    except psycopg.errors.QueryCanceled:
        return None
    finally:
        server.stop()
