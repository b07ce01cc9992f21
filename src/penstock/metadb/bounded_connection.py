"""A psycopg connection with a time limit for each answer.

Services on SQLite never import this module, because psycopg takes 9 MB of memory.
"""

from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection with a timeout for each answer. answer_timeout_s: None for no limit."""

    answer_timeout_s: float | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:  # callers such as a listener expect timeouts
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_timeout_s)
        except errors._WaitTimeout as error:
            # A late answer must not be mistaken for the answer to another statement.
            self.pgconn.finish()
            raise psycopg.OperationalError("the server does not answer in time") from error
