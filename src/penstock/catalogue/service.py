"""Use cases of the catalogue. It is fed by each insert into the warehouse (`warehouse/sql/schema.sql`); nothing here reads events."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.accounts.service import AccountService
from penstock.base.clock import iso
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.scalar import plain_text, tagged
from penstock.catalogue.schema import (
    NameRecord,
    NamesQuery,
    PropertiesQuery,
    PropertyRecord,
    TypeRecord,
    ValueRecord,
    ValuesQuery,
    ValuesRecord,
)
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.queries import load

_BUILTIN = "$"


class CatalogueService:
    """What was taken in: names, properties, values. Its methods block; call them from a worker thread.

    All raise Unauthorized for a `websiteId` that is not the workspace's, and Unavailable when the warehouse does not answer. Counts are of
    what was taken in: events that are deleted later stay counted.
    """

    def __init__(self, warehouse: Warehouse, accounts: AccountService, settings: Settings, *, wait_until_shipped: WaitUntilShipped) -> None:
        self._warehouse, self._accounts, self._settings = warehouse, accounts, settings
        self._wait_until_shipped = wait_until_shipped

    def names(self, workspace_id: WorkspaceId, query: NamesQuery) -> Listing[NameRecord]:
        """Names of events, the commonest first."""
        scope = self._scope(workspace_id, query.website_id)
        [[total, page]] = self._ask("seen_names", scope | _asked(query) | _limits(query.asked))
        records = [NameRecord(name=name, kind=kind, count=count, last_seen_at=iso(last_ms)) for kind, name, count, last_ms in page]
        return Listing(records, query.asked, total)

    def properties(self, workspace_id: WorkspaceId, query: PropertiesQuery) -> Listing[PropertyRecord]:
        """Properties and built-in fields, the commonest first, with their types."""
        scope = self._scope(workspace_id, query.website_id)
        [[total, page]] = self._ask("seen_properties", scope | _asked(query) | _event(query) | _limits(query.asked))
        return Listing([_property(*row) for row in page], query.asked, total)

    def values(self, workspace_id: WorkspaceId, query: ValuesQuery) -> ValuesRecord:
        """The values of one property that were kept, up to 100 of each type, the commonest first. Objects and arrays are no values."""
        scope = self._scope(workspace_id, query.website_id)
        rows = self._ask("seen_values", scope | _asked(query) | _event(query) | {"property": query.property})
        read = str if query.property.startswith(_BUILTIN) else json.loads
        kept = [ValueRecord(value=read(value), count=count) for _, top in rows for value, count in top]
        found = [seen for seen in kept if seen.count and query.search.casefold() in plain_text(seen.value).casefold()]
        found.sort(key=lambda seen: (-seen.count, tagged(seen.value)))
        page = query.asked
        return ValuesRecord(
            data=found[page.offset : page.offset + page.size],
            page=page.number,
            page_size=page.size,
            total=len(found),
            complete=sum(seen.count for seen in kept) == sum(events for events, _ in rows),
        )

    def _scope(self, workspace_id: WorkspaceId, website_id: str | None) -> dict[str, Any]:
        """Whose events: all of the workspace's, or of one website, which must be its own."""
        return {"websites": [website.id for website in self._accounts.websites_asked(workspace_id, website_id)]}

    def _ask(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self._wait_until_shipped(self._settings.fresh_wait_s)
        return self._warehouse.ask(load(statement), parameters)


def _asked(query: NamesQuery) -> dict[str, Any]:
    """What every list may be narrowed by; '' asks for all."""
    return {"kind": query.kind or "", "search": query.search}


def _event(query: PropertiesQuery) -> dict[str, Any]:
    return {"event": query.event or ""}


def _limits(page: Page) -> dict[str, Any]:
    return {"limit": page.size, "offset": page.offset}


def _property(name: str, count: int, last_ms: int, types: Sequence[tuple[Any, int, int]]) -> PropertyRecord:
    return PropertyRecord(
        property=name,
        builtin=name.startswith(_BUILTIN),
        count=count,
        last_seen_at=iso(last_ms),
        types=[TypeRecord(type=type_, count=events, last_seen_at=iso(at_ms)) for type_, events, at_ms in types],
    )
