"""Runs each reader's statements in a separate thread, which the caller can leave.

Nothing ends a statement of the embedded engine at once: the engine looks at time limits and at
`KILL QUERY` only between blocks of rows, and a function on one block may take minutes. So the
caller waits only until some seconds after the limit. Decision 0021 explains what stops a query.
"""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.common import StreamContext

from penstock.warehouse.work import Work

T = TypeVar("T")

_CHECK_S = 0.25
"""Seconds between checks whether a running statement is overdue."""


class Overdue(Exception):
    """The engine still runs a statement some seconds after its time limit or its stop."""


class Reader:
    """A connection for statements that read, and the thread that runs them one at a time."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        # A daemon thread does not keep the process alive while the engine runs a statement.
        self._thread = Thread(target=self._run_calls, name="warehouse_reader", daemon=True)
        self._thread.start()

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def run(self, call: Callable[[], T], is_overdue: Callable[[], bool]) -> T:
        """Run a call in the thread, and return its result or raise its error.

        Raises `Overdue` if `is_overdue` becomes true before the call ends. Then only `leave` may
        follow.
        """
        result = Future[T]()
        self._calls.put(partial(_resolve, result, call))
        while True:
            try:
                return result.result(_CHECK_S)
            except TimeoutError:
                if result.done():
                    return result.result()
                if is_overdue():
                    raise Overdue from None

    def close(self) -> None:
        """Close the connection and end the thread."""
        self.leave(lambda: None)
        self._thread.join()

    def leave(self, on_end: Callable[[], object]) -> None:
        """Close the connection once the running call has ended, without waiting for it.

        on_end: called in the thread after that.
        """

        def end() -> None:
            try:
                self.client.close()
            finally:
                on_end()

        self._calls.put(end)
        self._calls.put(None)


def _resolve(result: Future[T], call: Callable[[], T]) -> None:
    try:
        result.set_result(call())
    except BaseException as error:  # the waiting caller raises it
        result.set_exception(error)


@dataclass(frozen=True, slots=True)
class RunningStatement:
    """A statement that a reader runs for a work.

    settings: the engine's settings for it. patience_s: seconds after its limit or its stop at which
    it is overdue.
    """

    reader: Reader
    work: Work
    settings: Mapping[str, Any]
    patience_s: float

    @property
    def client(self) -> Client:
        return self.reader.client

    def run(self, call: Callable[[], T]) -> T:
        """Run a part of the statement in the reader's thread. Raises `Overdue`."""
        return self.reader.run(call, self._overdue_check())

    def blocks(self, open_stream: Callable[[], StreamContext]) -> Generator[Any, None, None]:
        """Open a stream of the statement's rows and yield its blocks, with the column names."""
        context = ExitStack()
        stream = self.run(lambda: context.enter_context(open_stream()))
        try:
            while (block := self.run(lambda: next(stream, None))) is not None:
                yield stream.source.column_names, block
        except Overdue:
            raise  # The engine still uses the stream, so it cannot be closed.
        except BaseException:
            self.run(context.close)
            raise
        self.run(context.close)

    def _overdue_check(self) -> Callable[[], bool]:
        limit_s = float(self.settings.get("max_execution_time") or inf)
        ends_s = monotonic() + limit_s + self.patience_s

        def is_overdue() -> bool:
            nonlocal ends_s
            now_s = monotonic()
            if self.work.is_stopped:
                ends_s = min(ends_s, now_s + self.patience_s)
            return now_s >= ends_s

        return is_overdue
