"""Groups the queries of one request as a `Work`, which other threads can watch and stop.

The thread that handles a request waits for the engine, with the request's `Work` as its context.
The queries run within the limits of the work, carry its ID in the engine, and end when the work is
stopped.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock
from time import monotonic
from typing import Any
from uuid import uuid4

from penstock.base.errors import Unavailable

_current: ContextVar["Work | None"] = ContextVar("work", default=None)
_graph = Lock()
"""Guards the links from each `Work` to the shared `Work` that it waits for."""


class Stopped(Unavailable):
    """The work was stopped, usually because the client disconnected."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("The request was stopped. Send it again.")


class Work:
    """The queries of one request, which run one at a time.

    It may wait for a shared `Work`, which is stopped early only if no other `Work` waits for it.
    limits: engine settings for each query.
    owner: the workspace whose turns the queries use; None for the service itself.
    """

    def __init__(self, limits: Mapping[str, Any] | None = None, owner: str | None = None) -> None:
        self.id, self.owner = uuid4().hex, owner
        self.limits = dict(limits or {})
        self.began_s = monotonic()
        self.rows_read = 0
        """Number of rows that finished queries have read."""
        self._stopped, self._idle = Event(), Event()
        self._idle.set()
        self._awaited: Work | None = None
        self._waiters: set[Work] = set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def awaited_work(self) -> "Work | None":
        """The shared `Work` that this one waits for, if any."""
        return self._awaited

    def check(self) -> None:
        """Raise `Stopped` if the work was stopped."""
        if self.is_stopped:
            raise Stopped

    @contextmanager
    def run_in_engine(self) -> Iterator[None]:
        """Mark that a query may be running. Raises `Stopped` if the work was already stopped."""
        self._idle.clear()
        try:
            self.check()
            yield
        finally:
            self._idle.set()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no query is running. Returns False after `timeout_s`."""
        return self._idle.wait(timeout_s)

    def stop(self) -> list["Work"]:
        """Prevent further queries, and return each `Work` whose queries must be killed.

        These are this work and, if no other work waits for it, the shared work, which may wait for
        another one.
        """
        with _graph:
            self._stopped.set()
            stopped = [self]
            while (shared := stopped[-1]._awaited) is not None:
                shared._waiters.discard(stopped[-1])
                if shared._waiters:
                    break
                shared._stopped.set()
                stopped.append(shared)
            return stopped

    def begin_wait(self, shared: "Work") -> bool:
        """Start waiting for a shared `Work`. Returns False if it was stopped.

        Raises `Stopped` if this work was stopped.
        """
        with _graph:
            self.check()
            if shared.is_stopped:
                return False
            shared._waiters.add(self)
            self._awaited = shared
            return True

    def end_wait(self) -> None:
        """Stop waiting for the shared work, and add the rows that it has read."""
        with _graph:
            if self._awaited is not None:
                self.rows_read += self._awaited.rows_read
                self._awaited._waiters.discard(self)
                self._awaited = None


def current_work() -> Work | None:
    """Return the work of this thread, if any."""
    return _current.get()


def check_stopped() -> None:
    """Raise `Stopped` if the work of this thread was stopped.

    For loops in Python, which do not end with the engine's queries.
    """
    if (work := current_work()) is not None:
        work.check()


def check_limits() -> None:
    """Raise `Stopped` like `check_stopped`, and `Unavailable` if the time of the work is up.

    For loops over the metadata DB, which the engine's limits do not cover. The time of a work
    starts with `working_on`; a work without a limit and threads without a work have no end.
    """
    check_stopped()
    work = current_work()
    limit_s = None if work is None else work.limits.get("max_execution_time")
    if work is not None and limit_s is not None and monotonic() - work.began_s > limit_s:
        raise Unavailable(
            f"The request took longer than {limit_s:g} seconds, the limit queryTimeoutSeconds. "
            "Raise the limit in the workspace's settings.",
            code="query_timeout",
        )


@contextmanager
def working_on(work: Work) -> Iterator[Work]:
    """Attribute all queries in this context to the given work, whose time starts now."""
    work.began_s = monotonic()
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)
