"""Measures the self-join in DuckDB."""

import tempfile
import threading
from pathlib import Path

import duckdb

from bench.other_engines import LIMIT_S, self_join
from bench.timing import best_seconds


def seconds(file: Path, rounds: int) -> float | None:
    """Return the best time of the self-join over a table loaded from Parquet; None if it takes too
    long.
    """
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        connection = duckdb.connect(
            Path(folder, "bench.duckdb"), config={"temp_directory": folder, "memory_limit": "8GB"}
        )
        connection.execute("SET enable_progress_bar = false")
        connection.execute("CREATE TABLE events AS SELECT * FROM read_parquet(?)", [str(file)])
        watch = threading.Timer(LIMIT_S, connection.interrupt)
        watch.start()
        try:
            query = {"": lambda: connection.execute(self_join()).fetchall()}
            return best_seconds(query, rounds)[""]
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            return None
        finally:
            watch.cancel()
            connection.close()
