"""Handles bodies with many items. Each item is accepted or rejected independently."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from penstock.base.errors import Fault, Invalid, Malformed, PenstockError
from penstock.events.model import NewEvent, Receipt, Rejected
from penstock.events.validation import RawItem, Rule


def _has_no_session_id(raw: RawItem) -> Iterator[Fault]:
    if "sessionId" in raw:
        message = "A batch has no sessionId; put it in each item."
        yield Fault("sessionId", "unknown_field", message)


TRACK_BATCH_RULES: tuple[Rule, ...] = (_has_no_session_id,)


def defaults_of(raw: RawItem) -> RawItem:
    """Return the body's fields that serve as defaults for items from browsers and apps."""
    return {name: raw[name] for name in ("websiteId", "sentAt", "clockOffset") if name in raw}


MAX_BODY_FAULTS = 1_000
"""Maximum number of faults in the response to one body."""


class ItemResult(NamedTuple):
    """The result for one item: a receipt, or the faults of a rejected item.

    more_faults: number of faults that are not in `faults`.
    """

    receipt: Receipt | None
    faults: tuple[Fault, ...] = ()
    more_faults: int = 0


class ValidatedBatch(NamedTuple):
    """A batch after validation. Every index is in either `events` or `rejected`."""

    events: dict[int, NewEvent]
    rejected: dict[int, ItemResult]

    @classmethod
    def of(cls, items: Sequence[Any], read: Callable[[Any], NewEvent]) -> Self:
        """Validate each item. If `read` raises `Malformed`, the whole body is rejected.

        read: validates one item, or raises the reason for rejecting it.
        """
        batch = cls({}, {})
        for index in range(len(items)):
            try:
                batch.events[index] = read(items[index])
            except Malformed:
                raise
            except PenstockError as error:
                batch.rejected[index] = ItemResult(None, _item_faults(error), error.more_faults)
        return cls(batch.events, within_body_limit(batch.rejected))

    def results(self, stored: Sequence[Receipt | Rejected]) -> list[ItemResult]:
        """Return results in the order of the items. stored: results in the order of `events`."""
        results = dict(self.rejected)
        for index, result in zip(self.events, stored, strict=True):
            if isinstance(result, Rejected):
                results[index] = ItemResult(None, (result.fault,))
            else:
                results[index] = ItemResult(result)
        return [results[index] for index in range(len(results))]


def within_body_limit(rejected: dict[int, ItemResult]) -> dict[int, ItemResult]:
    """Limit the faults of all items together. Each item keeps its first fault."""
    faults_left = MAX_BODY_FAULTS - len(rejected)
    results = {}
    for index, result in rejected.items():
        faults = result.faults[: 1 + max(0, faults_left)]
        faults_left -= len(faults) - 1
        more_faults = result.more_faults + len(result.faults) - len(faults)
        results[index] = result._replace(faults=faults, more_faults=more_faults)
    return results


def _item_faults(error: PenstockError) -> tuple[Fault, ...]:
    """Return the faults of a rejected item. Any error except `Invalid` concerns the item's
    website.
    """
    if isinstance(error, Invalid):
        return error.faults
    return (Fault("websiteId", error.code, error.detail.removeprefix("websiteId: ")),)
