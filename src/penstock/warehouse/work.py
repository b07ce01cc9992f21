"""Work: the queries of one request, whose progress other threads can read and which they can stop.

A thread handles a request and waits for the engine. The request's `Work` is the thread's context:
its queries run within the limits of the work, carry its ID in the engine, and end when the work is
stopped.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock
from typing import Any
from uuid import uuid4

from penstock.base.errors import Unavailable

_current: ContextVar["Work | None"] = ContextVar("work", default=None)
_graph = Lock()
"""Guards the links between works that wait for each other."""


class Stopped(Unavailable):
    """The work was stopped, usually because its client has gone."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("The request was stopped; send it again.")


class Work:
    """Queries of one request, one at a time. limits: engine settings for each of them.

    owner: whose turn they take, a workspace; None for the service itself.

    A work may wait for a shared work. A shared work is stopped early only when no other work waits
    for it.
    """

    def __init__(self, limits: Mapping[str, Any] | None = None, owner: str | None = None) -> None:
        self.id, self.owner = uuid4().hex, owner
        self.limits = dict(limits or {})
        self.rows_read = 0
        """Rows that finished queries have read."""
        self._stopped, self._idle = Event(), Event()
        self._idle.set()
        self._awaited: Work | None = None
        self._waiters: set[Work] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def awaited(self) -> "Work | None":
        """The shared work that this one waits for, if any."""
        return self._awaited

    def check(self) -> None:
        """Raise `Stopped` when the work was stopped."""
        if self.stopped:
            raise Stopped

    @contextmanager
    def in_engine(self) -> Iterator[None]:
        """While a query of it may run. `Stopped` when the work was stopped before."""
        self._idle.clear()
        try:
            self.check()
            yield
        finally:
            self._idle.set()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no query of it runs. False after `timeout_s`."""
        return self._idle.wait(timeout_s)

    def stop(self) -> list["Work"]:
        """Begin no further query.

        Returns the works to kill: itself, and a shared one with no other waiter.
        """
        with _graph:
            self._stopped.set()
            shared = self._awaited
            if shared is None:
                return [self]
            shared._waiters.discard(self)
            if shared._waiters:
                return [self]
            shared._stopped.set()
            return [self, shared]

    def want(self, shared: "Work") -> bool:
        """Wait for a shared work from now on.

        False when that was stopped; `Stopped` when this one was.
        """
        with _graph:
            self.check()
            if shared.stopped:
                return False
            shared._waiters.add(self)
            self._awaited = shared
            return True

    def end_wait(self) -> None:
        """The shared work has ended."""
        with _graph:
            if self._awaited is not None:
                self.rows_read += self._awaited.rows_read
                self._awaited._waiters.discard(self)
                self._awaited = None


def current_work() -> Work | None:
    """The work of this thread, if it has one."""
    return _current.get()


@contextmanager
def working_on(work: Work) -> Iterator[Work]:
    """Queries in this context belong to the work."""
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)
