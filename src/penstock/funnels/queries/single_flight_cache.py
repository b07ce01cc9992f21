"""A cache that computes a value once for all threads that need it at the same time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, NamedTuple, TypeVar

from penstock.warehouse.work import Work, current_work, working_on

V = TypeVar("V")

_STOP_CHECK_S = 0.1  # how often a waiting thread checks whether its own work was stopped


class NotCached(Exception):
    """The cache has no current value, and the caller does not want to compute one."""


class CacheLookup(NamedTuple, Generic[V]):
    """A value, and whether it came from the cache."""

    value: V
    is_hit: bool


@dataclass(slots=True)
class _InFlight(Generic[V]):
    """A value that the first thread to need it is computing."""

    work: Work
    done: Event = field(default_factory=Event)
    value: V | None = None
    error: Exception | None = None


class SingleFlightCache(Generic[V]):
    """A cache of values by key. Above a total weight, the least recently used are evicted.

    A key must contain everything that a value depends on. Thread-safe. Methods block.
    """

    def __init__(
        self,
        *,
        max_weight: int,
        weigh: Callable[[V], int] = lambda _: 1,
        max_value_weight: int | None = None,
    ) -> None:
        """max_value_weight: heavier values are not cached."""
        self._max_weight, self._weigh = max_weight, weigh
        self._max_value_weight = max_weight if max_value_weight is None else max_value_weight
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._in_flight: dict[Hashable, _InFlight[V]] = {}
        self._weight = 0
        self._lock = Lock()

    def get(
        self,
        key: Hashable,
        compute: Callable[[], V],
        *,
        is_usable: Callable[[V], bool] = lambda _: True,
        is_current: Callable[[], bool] = lambda: True,
    ) -> CacheLookup[V]:
        """Return the cached value while it is usable, a value that is being computed, or a new one.

        is_current: returns whether the key still describes the input. It is called after the
        computation; if it returns False, the value is returned but not cached.

        Raises the errors of `compute` in every waiting thread. A computation stops early only when
        every thread that waits for it was stopped.
        """
        own = current_work() or Work()
        own.check()
        with self._lock:
            value = self._find_usable(key, is_usable)
            if value is not None:
                return CacheLookup(value, True)
            flight = self._in_flight.get(key)
            is_first = flight is None or not own.begin_wait(flight.work)
            if is_first:
                flight = self._in_flight[key] = _InFlight(Work(own.limits, own.owner))
                own.begin_wait(flight.work)
        assert flight is not None
        try:
            if is_first:
                self._compute(key, flight, compute, is_current)
            else:
                while not flight.done.wait(_STOP_CHECK_S):
                    own.check()
        finally:
            own.end_wait()
        own.check()
        if flight.error is not None:
            raise flight.error
        assert flight.value is not None
        return CacheLookup(flight.value, False)

    def get_cached(self, key: Hashable, *, is_usable: Callable[[V], bool] = lambda _: True) -> V:
        """Return the cached value without waiting. Raises `NotCached` if none is usable."""
        with self._lock:
            value = self._find_usable(key, is_usable)
        if value is None:
            raise NotCached
        return value

    def _find_usable(self, key: Hashable, is_usable: Callable[[V], bool]) -> V | None:
        value = self._values.get(key)
        if value is None or not is_usable(value):
            return None
        self._values.move_to_end(key)
        return value

    def _compute(
        self,
        key: Hashable,
        flight: _InFlight[V],
        compute: Callable[[], V],
        is_current: Callable[[], bool],
    ) -> None:
        cacheable = False
        try:
            with working_on(flight.work):
                flight.value = compute()
                cacheable = is_current()
        except Exception as error:  # every waiting thread raises it
            flight.error = error
        finally:
            with self._lock:
                if self._in_flight.get(key) is flight:
                    del self._in_flight[key]
                if flight.value is not None and cacheable:
                    self._store(key, flight.value)
            flight.done.set()

    def _store(self, key: Hashable, value: V) -> None:
        previous = self._values.pop(key, None)
        self._weight -= 0 if previous is None else self._weigh(previous)
        if self._weigh(value) > self._max_value_weight:
            return
        self._values[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._max_weight:
            _, oldest = self._values.popitem(last=False)
            self._weight -= self._weigh(oldest)
