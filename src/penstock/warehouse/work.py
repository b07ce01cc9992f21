"""What one request asks of the engine, as another thread sees it: how far it is, and a way to stop it.

A request is worked on in a thread that waits for the engine. Its `Work` is the thread's context: whatever the thread asks of the warehouse
runs within the work's limits, can be found in the engine by the work's ID, and ends when the work is stopped.
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
"""Guards who waits for whom."""


class Stopped(Unavailable):
    """The work was stopped; as a rule nobody is left to be told."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("The work on this request was stopped; ask again.")


class Work:
    """Statements of one request, one at a time. limits: engine settings that hold for each of them.

    A work may wait for another that several wait for; that one ends early only when nobody wants it any more.
    """

    def __init__(self, limits: Mapping[str, Any] | None = None) -> None:
        self.id = uuid4().hex
        self.limits = dict(limits or {})
        self.rows_read = 0
        """By statements that have ended."""
        self._stopped, self._idle = Event(), Event()
        self._idle.set()
        self._awaited: Work | None = None
        self._wanted_by: set[Work] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def awaited(self) -> "Work | None":
        """The shared work that this one waits for right now."""
        return self._awaited

    def check(self) -> None:
        """Stopped, when that is so."""
        if self.stopped:
            raise Stopped

    @contextmanager
    def in_engine(self) -> Iterator[None]:
        """While a statement of it may run. Stopped, when it must not begin."""
        self._idle.clear()
        try:
            self.check()
            yield
        finally:
            self._idle.set()

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether no statement of it runs, at the latest after that time."""
        return self._idle.wait(timeout_s)

    def stop(self) -> list["Work"]:
        """From now on it begins nothing more. All works that ended with it: itself, and a shared one that nobody else wants."""
        with _graph:
            self._stopped.set()
            shared = self._awaited
            if shared is None:
                return [self]
            shared._wanted_by.discard(self)
            if shared._wanted_by:
                return [self]
            shared._stopped.set()
            return [self, shared]

    def want(self, shared: "Work") -> bool:
        """Begin to wait for a shared work. False when that one was stopped already; Stopped when this one was."""
        with _graph:
            self.check()
            if shared.stopped:
                return False
            shared._wanted_by.add(self)
            self._awaited = shared
            return True

    def wait_no_more(self) -> None:
        """What it waited for is over."""
        with _graph:
            if self._awaited is not None:
                self.rows_read += self._awaited.rows_read
                self._awaited._wanted_by.discard(self)
                self._awaited = None


def current_work() -> Work | None:
    """What this thread works on."""
    return _current.get()


@contextmanager
def working_on(work: Work) -> Iterator[Work]:
    """Whatever is asked of the warehouse in this context belongs to the work."""
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)
