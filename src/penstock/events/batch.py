"""Many items in one body, each accepted or rejected by itself."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from penstock.base.errors import Fault, Invalid, PenstockError
from penstock.events.model import NewEvent, Receipt, Rejected
from penstock.events.validation import RawItem, Rule


def _has_no_session_id(raw: RawItem) -> Iterator[Fault]:
    if "sessionId" in raw:
        message = "A batch has no sessionId; put it into each item."
        yield Fault("sessionId", "unknown_field", message)


TRACK_BATCH_RULES: tuple[Rule, ...] = (_has_no_session_id,)


class ItemResult(NamedTuple):
    """The result for one item: a receipt, or the faults of a rejected item."""

    receipt: Receipt | None
    faults: tuple[Fault, ...] = ()


class ValidatedBatch(NamedTuple):
    """A batch after validation: every index is in one of the two."""

    events: dict[int, NewEvent]
    rejected: dict[int, tuple[Fault, ...]]

    @classmethod
    def of(cls, items: Sequence[Any], read: Callable[[Any], NewEvent]) -> Self:
        """read: validates one item; raises for an invalid one."""
        batch = cls({}, {})
        for index, item in enumerate(items):
            try:
                batch.events[index] = read(item)
            except PenstockError as error:
                batch.rejected[index] = _item_faults(error)
        return batch

    def results(self, stored: Sequence[Receipt | Rejected]) -> list[ItemResult]:
        """Results in the order of the items. stored: in the order of `events`."""
        results = {index: ItemResult(None, faults) for index, faults in self.rejected.items()}
        for index, result in zip(self.events, stored, strict=True):
            if isinstance(result, Rejected):
                results[index] = ItemResult(None, (result.fault,))
            else:
                results[index] = ItemResult(result)
        return [results[index] for index in range(len(results))]


def _item_faults(error: PenstockError) -> tuple[Fault, ...]:
    """The faults of a rejected item. An error other than `Invalid` is about its website."""
    if isinstance(error, Invalid):
        return error.faults
    return (Fault("websiteId", error.code, error.detail.removeprefix("websiteId: ")),)
