"""Deletions in the warehouse.

A deletion is a mutation (`ALTER TABLE ... DELETE`): the engine rewrites the parts that contain such
rows and drops the old parts. A lightweight delete would only mark rows: they would stay on disk
until the engine merges their part, and it may never merge a large part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.base.chunks import chunks
from penstock.base.ids import WebsiteId
from penstock.events.deletions.model import AffectedEvents, Deletion, Target
from penstock.warehouse import catalogue
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

_SQL = "penstock.events.deletions"
_VISITORS_PER_STATEMENT = 5_000


class WarehouseDeletion:
    """Removes a deletion's events and merges from the warehouse. Methods block.

    pause: called between polls while the engine works. It may raise to stop waiting.
    """

    def __init__(self, warehouse: Warehouse, pause: Callable[[], None]) -> None:
        self._warehouse, self._pause = warehouse, pause

    def count(
        self, deletion: Deletion, website_ids: Sequence[WebsiteId]
    ) -> dict[WebsiteId, AffectedEvents]:
        """Count the events to remove, by website. Websites without such events are omitted."""
        counts: dict[WebsiteId, AffectedEvents] = {}
        for name, parameters in self._selections(deletion, website_ids):
            _, rows = self._warehouse.query(load(_SQL, f"count_events_of_{name}"), parameters)
            for website_id, *columns in rows:
                events = AffectedEvents(*columns)
                counts[website_id] = (
                    counts[website_id].plus(events) if website_id in counts else events
                )
        return counts

    def begin_removal(self, deletion: Deletion, website_ids: Sequence[WebsiteId]) -> None:
        """Start removing the events that the deletion currently covers. `await_mutations` waits for
        the end.
        """
        for name, parameters in self._selections(deletion, website_ids):
            self._warehouse.command(load(_SQL, f"delete_events_of_{name}"), parameters)

    def remove_merges(self, deletion: Deletion) -> int:
        """Remove the visitor's merges and return their number. Later merges of its IDs remain."""
        if not deletion.merge_id:
            return 0
        removed = 0
        for keys in self._visitor_keys(deletion):
            parameters = {"scope": deletion.scope_id, "visitors": keys, "merge": deletion.merge_id}
            [(count,)] = self._warehouse.query(load(_SQL, "count_aliases"), parameters)[1]
            removed += count
            self._warehouse.command(load(_SQL, "delete_aliases"), parameters)
        self.await_mutations("visitor_aliases")
        return removed

    def remove_traits(self, deletion: Deletion) -> None:
        """Remove the visitor's traits. Traits that were sent after the request remain."""
        for keys in self._visitor_keys(deletion):
            parameters = {
                "scope": deletion.scope_id,
                "visitors": keys,
                "version": max(deletion.outbox_id, 0),
            }
            self._warehouse.command(load(_SQL, "delete_traits"), parameters)
        self.await_mutations("visitor_traits")

    def await_mutations(self, table: str) -> None:
        """Wait until the engine has finished all mutations of a table.

        Raises `QueryFailed` if a mutation has failed. The engine keeps retrying it.
        """
        catalogue.await_mutations(self._warehouse, table, self._pause)

    def _selections(
        self, deletion: Deletion, website_ids: Sequence[WebsiteId]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name suffix and parameters of each statement that selects the events.

        No event is selected twice, so that counts can be added.
        """
        common = {"websites": list(website_ids), "requested_at": deletion.created_at_ms}
        if deletion.target is Target.SPAN:
            yield "span", common | {"from": deletion.from_at_ms, "to": deletion.to_at_ms}
        elif deletion.target is Target.IMPORT:
            yield "import", {"websites": list(website_ids), "import": deletion.import_id}
        elif deletion.target is Target.RETENTION:
            yield "kind", common | {"kind": deletion.kind, "to": deletion.to_at_ms}
        else:
            user = deletion.user_id or ""
            if user:
                yield "user", common | {"user": user}
            for keys in self._visitor_keys(deletion):
                yield "visitors", common | {"visitors": keys, "user": user}

    def _visitor_keys(self, deletion: Deletion) -> Iterator[list[int]]:
        for visitor_ids in chunks(deletion.visitor_ids, _VISITORS_PER_STATEMENT):
            _, rows = self._warehouse.query(
                load("penstock.identity", "visitor_keys"),
                {"scope": deletion.scope_id, "visitors": list(visitor_ids)},
            )
            yield [key for (key,) in rows]
