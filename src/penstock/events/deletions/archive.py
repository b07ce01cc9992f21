"""What deletions ask of the warehouse. Its methods block.

A deletion is a mutation (`ALTER TABLE ... DELETE`): the engine writes the parts that have such rows anew without them, and drops the old
ones. A lightweight delete only marks rows; they would stay on disk until the engine merges their part, which for a large one may be never.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.base.ids import WebsiteId
from penstock.events.deletions.model import Deletion, Found, Target
from penstock.warehouse.client import QueryFailed, Warehouse
from penstock.warehouse.queries import load

_MOST_KEYS = 5_000
"""Visitors that one statement names."""


class Archive:
    """Events and merges in the warehouse as a deletion sees them. rest: called while the engine works; it may raise to leave."""

    def __init__(self, warehouse: Warehouse, rest: Callable[[], None]) -> None:
        self._warehouse, self._rest = warehouse, rest

    def count(self, deletion: Deletion, website_ids: Sequence[WebsiteId]) -> dict[WebsiteId, Found]:
        """The events that it removes, of each website that has any."""
        found: dict[WebsiteId, Found] = {}
        for name, parameters in self._selections(deletion, website_ids):
            for website_id, *rest in self._warehouse.query(load(f"count_events_of_{name}"), parameters)[1]:
                some = Found(*rest)
                found[website_id] = found[website_id].and_more(some) if website_id in found else some
        return found

    def begin_removal(self, deletion: Deletion, website_ids: Sequence[WebsiteId]) -> None:
        """Have the engine remove all of its events that are there now; `await_mutations` tells when it has."""
        for name, parameters in self._selections(deletion, website_ids):
            self._warehouse.command(load(f"delete_events_of_{name}"), parameters)

    def remove_merges(self, deletion: Deletion) -> None:
        """Who counted as the visitor. A later merge of the same IDs stays."""
        if not deletion.merge_id:
            return
        for keys in self._keys(deletion):
            parameters = {"scope": deletion.scope_id, "visitors": keys, "merge": deletion.merge_id}
            self._warehouse.command(load("delete_aliases"), parameters)
        self.await_mutations("visitor_aliases")

    def rebuild_catalogue(self, website_ids: Sequence[WebsiteId]) -> None:
        """Sum up anew what was seen, from the events that are left. Nothing may be inserted meanwhile."""
        parameters = {"websites": list(website_ids)}
        self._warehouse.command(load("delete_catalogue"), parameters)
        self.await_mutations("catalogue")
        [(summing,)] = self._warehouse.query(load("catalogue_definition"))[1]
        # By the view's own statement, which the engine tells.
        self._warehouse.command(load("fill_catalogue").replace("(summing)", f"({summing})"), parameters)

    def await_mutations(self, table: str) -> None:
        """Wait until the engine has done all mutations of a table. It does them by itself, also after a restart.

        `QueryFailed` when it did not manage one so far; it goes on trying.
        """
        while True:
            [(mutations, reason)] = self._warehouse.query(load("open_mutations"), {"table": table})[1]
            if not mutations:
                return
            if reason:
                raise QueryFailed(reason, 0)
            self._rest()

    def _selections(self, deletion: Deletion, website_ids: Sequence[WebsiteId]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Which statements select its events (`visitors` or `span`), with their parameters."""
        common = {"websites": list(website_ids), "asked_at": deletion.created_at_ms}
        if deletion.target is Target.SPAN:
            yield "span", common | {"from": deletion.from_ms, "to": deletion.to_ms}
        else:
            for keys in self._keys(deletion):
                yield "visitors", common | {"visitors": keys}

    def _keys(self, deletion: Deletion) -> Iterator[list[int]]:
        for start in range(0, len(deletion.visitor_ids), _MOST_KEYS):
            some = list(deletion.visitor_ids[start : start + _MOST_KEYS])
            yield [key for (key,) in self._warehouse.query(load("visitor_keys"), {"scope": deletion.scope_id, "visitors": some})[1]]
