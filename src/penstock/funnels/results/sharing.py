"""What several requests want is made once, and kept for those that come later."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, NamedTuple, TypeVar

from penstock.warehouse.work import Work, current_work, working_on

V = TypeVar("V")

_LOOK_S = 0.1  # how often someone who waits looks whether the own work was stopped


class Had(NamedTuple, Generic[V]):
    """A value, and whether it was there before it was asked for."""

    value: V
    kept: bool


@dataclass(slots=True)
class _Flight(Generic[V]):
    """A value that is being made, by the thread of the first who wanted it."""

    work: Work
    landed: Event = field(default_factory=Event)
    value: V | None = None
    error: Exception | None = None


class Shared(Generic[V]):
    """Values by key, at most `most` of weight in all; the ones used longest ago go first.

    A key must say all that a value depends on. Methods block; they may be called from many threads.
    """

    def __init__(self, *, most: int, weigh: Callable[[V], int] = lambda _: 1, heaviest: int | None = None) -> None:
        """heaviest: values of more weight are not kept."""
        self._most, self._weigh, self._heaviest = most, weigh, most if heaviest is None else heaviest
        self._kept: OrderedDict[Hashable, V] = OrderedDict()
        self._flights: dict[Hashable, _Flight[V]] = {}
        self._weight = 0
        self._lock = Lock()

    def get(
        self,
        key: Hashable,
        make: Callable[[], V],
        *,
        holds: Callable[[V], bool] = lambda _: True,
        still: Callable[[], bool] = lambda: True,
    ) -> Had[V]:
        """The value of a key: the kept one while it holds, the one that is being made right now, or a new one.

        still: whether the key still says what the value was made from; asked when it is made, and if not, it is not kept.

        Raises what `make` raises, to all who waited for it. A making ends early only when all who wait for it were stopped.
        """
        own = current_work() or Work()
        own.check()
        with self._lock:
            value = self._kept.get(key)
            if value is not None and holds(value):
                self._kept.move_to_end(key)
                return Had(value, True)
            flight = self._flights.get(key)
            first = flight is None or not own.want(flight.work)
            if first:
                flight = self._flights[key] = _Flight(Work(own.limits))
                own.want(flight.work)
        assert flight is not None
        try:
            if first:
                self._make(key, flight, make, still)
            else:
                while not flight.landed.wait(_LOOK_S):
                    own.check()
        finally:
            own.wait_no_more()
        own.check()
        if flight.error is not None:
            raise flight.error
        assert flight.value is not None
        return Had(flight.value, False)

    def _make(self, key: Hashable, flight: _Flight[V], make: Callable[[], V], still: Callable[[], bool]) -> None:
        to_keep = False
        try:
            with working_on(flight.work):
                flight.value = make()
                to_keep = still()
        except Exception as error:  # for all who wait
            flight.error = error
        finally:
            with self._lock:
                if self._flights.get(key) is flight:
                    del self._flights[key]
                if flight.value is not None and to_keep:
                    self._keep(key, flight.value)
            flight.landed.set()

    def _keep(self, key: Hashable, value: V) -> None:
        before = self._kept.pop(key, None)
        self._weight -= 0 if before is None else self._weigh(before)
        if self._weigh(value) > self._heaviest:
            return
        self._kept[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._weight -= self._weigh(oldest)
