"""Reads the catalogue. The warehouse updates it with every insert, so no query reads events."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import json

from penstock.accounts.keys.service import wrong_website_of_key
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import iso
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.paths import canonical_spelling, page_path
from penstock.base.scalar import plain_text, tagged, untagged
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
from penstock.funnels.definitions.builtins import PATH, TOUCH_FIELDS, TRAIT_PREFIX, trait_of
from penstock.funnels.definitions.filters import MAX_KEY_BYTES
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.queries import load

_BUILTIN = "$"
_TRAIT_VISITORS = 100_000
"""Maximum number of visitors whose traits a list reads."""
_TRAIT_VALUES = 100
_MAX_VALUE_BYTES = 256


class CatalogueService:
    """Lists names, properties and values of accepted events.

    Methods block: call them from a worker thread.

    They raise `Unauthorized` for another workspace's `websiteId` and `Unavailable` when the
    warehouse does not respond. Counts include events that were deleted later.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        websites: WebsiteService,
        settings: Settings,
        *,
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        self._warehouse, self._websites, self._settings = warehouse, websites, settings
        self._wait_until_shipped = wait_until_shipped

    def names(self, workspace_id: WorkspaceId, query: NamesQuery) -> Listing[NameRecord]:
        """Return the names of events, most frequent first."""
        scope = self._scope(workspace_id, query.website_id)
        [[total, page]] = self._fetch("names", scope | _filters(query) | _limits(query.pagination))
        records = [
            NameRecord(name=name, kind=kind, count=count, last_seen_at=iso(last_ms))
            for kind, name, count, last_ms in page
        ]
        return Listing(records, query.pagination, total)

    def last_event_ms(
        self, workspace_id: WorkspaceId, name: str, website_id: str | None
    ) -> int | None:
        """Return the time of the latest event of exactly this name; None if there is none."""
        scope = self._scope(workspace_id, website_id)
        rows = self._fetch("last_event", scope | {"name": name})
        return rows[0][0] if rows else None

    def properties(
        self,
        workspace_id: WorkspaceId,
        query: PropertiesQuery,
        only_website: WebsiteId | None = None,
    ) -> Listing[PropertyRecord]:
        """Return properties and built-in fields with their types, most frequent first.

        only_website: the only website that the caller's key is for; None for all websites of the
        workspace. Such a caller gets no traits if the website shares its visitors with others.
        """
        scope = self._scope(workspace_id, query.website_id)
        [[total, page]] = self._fetch(
            "properties",
            scope
            | self._traits(workspace_id, query.website_id, only_website)
            | _filters(query)
            | _event(query)
            | _limits(query.pagination)
            | {"trait_prefix": TRAIT_PREFIX, "key_bytes": MAX_KEY_BYTES}
            | {"touches": [(_event_field(name), name) for name in TOUCH_FIELDS]},
        )
        records = [_property(*row, has_event=query.event is not None) for row in page]
        return Listing(records, query.pagination, total)

    def values(
        self,
        workspace_id: WorkspaceId,
        query: ValuesQuery,
        only_website: WebsiteId | None = None,
    ) -> ValuesRecord:
        """Return scalar values of one property, most frequent first, up to 100 per type.

        only_website: see `properties`. Raises `Forbidden` if such a caller may not read a trait.
        """
        if (trait := trait_of(query.property)) is not None:
            return self._trait_values(workspace_id, query, trait, only_website)
        scope = self._scope(workspace_id, query.website_id)
        wanted = {**_filters(query), **_event(query), "property": query.property}
        if query.property in TOUCH_FIELDS:
            # The value of a touch may come from any event, because the touch happened before the
            # funnel's event.
            wanted |= {"kind": "", "event": "", "property": _event_field(query.property)}
        rows = self._fetch("values", scope | wanted)
        decode = str if query.property.startswith(_BUILTIN) else json.decode
        stored_values = [
            ValueRecord(value=decode(value), count=count) for _, top in rows for value, count in top
        ]
        return _values(query, stored_values, sum(events for events, _ in rows))

    def _trait_values(
        self,
        workspace_id: WorkspaceId,
        query: ValuesQuery,
        trait: str,
        only_website: WebsiteId | None,
    ) -> ValuesRecord:
        visitors = self._traits(workspace_id, query.website_id, only_website)
        if only_website is not None and not visitors["scopes"]:
            raise wrong_website_of_key(only_website)
        rows = self._fetch("trait_values", visitors | {"trait": trait, "values": _TRAIT_VALUES})
        stored_values = [
            ValueRecord(value=value, count=count)
            for text, count, _ in rows
            if len(text.encode()) <= _MAX_VALUE_BYTES and (value := untagged(text)) is not None
        ]
        return _values(query, stored_values, rows[0][2] if rows else 0)

    def _scope(self, workspace_id: WorkspaceId, website_id: str | None) -> dict[str, Any]:
        """Return the parameter that selects one website, or all websites of the workspace."""
        return {
            "websites": [
                website.id for website in self._websites.select_websites(workspace_id, website_id)
            ]
        }

    def _traits(
        self, workspace_id: WorkspaceId, website_id: str | None, only_website: WebsiteId | None
    ) -> dict[str, Any]:
        """Return the parameters that select the visitors of websites, to read their traits.

        only_website: see `properties`.
        """
        scopes = sorted(
            {
                website.scope_id
                for website in self._websites.select_websites(workspace_id, website_id)
                if self._websites.may_read_traits(website, only_website)
            }
        )
        return {"scopes": scopes, "visitors": _TRAIT_VISITORS}

    def _fetch(self, statement: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        return self._warehouse.fetch_rows(load("penstock.catalogue", statement), parameters)


def _values(query: ValuesQuery, stored: Sequence[ValueRecord], total: int) -> ValuesRecord:
    """Return a page of values. total: number of events or visitors with any value."""
    is_path = query.property == PATH
    search = (canonical_spelling(query.search) if is_path else query.search).casefold()
    matches = [
        record
        for record in stored
        if record.count and search in plain_text(record.value).casefold()
    ]
    matches.sort(key=lambda record: (-record.count, tagged(record.value)))
    page = query.pagination
    return ValuesRecord(
        data=matches[page.offset : page.offset + page.size],
        page=page.number,
        page_size=page.size,
        total=len(matches),
        complete=sum(record.count for record in stored) == total,
    )


def _filters(query: NamesQuery) -> dict[str, Any]:
    """Return the parameters that all lists share. An empty string selects everything."""
    search = {"search": query.search, "path_search": canonical_spelling(query.search)}
    return {"kind": query.kind or "", **search}


def _event(query: PropertiesQuery) -> dict[str, Any]:
    return {"event": query.event or "", "path": page_path(query.event or "")}


def _event_field(touch_field: str) -> str:
    """Return the event field for a touch's field: `$utm_source` for `$first_utm_source`."""
    return f"{_BUILTIN}{TOUCH_FIELDS[touch_field][1]}"


def _limits(page: Page) -> dict[str, Any]:
    return {"limit": page.size, "offset": page.offset}


def _property(
    name: str,
    count: int,
    last_ms: int,
    types: Sequence[tuple[Any, int, int]],
    different: int,
    *,
    has_event: bool,
) -> PropertyRecord:
    return PropertyRecord(
        property=name,
        builtin=name.startswith(_BUILTIN),
        count=count,
        last_seen_at=_time(last_ms),
        types=[
            TypeRecord(type=type_, count=events, last_seen_at=_time(at_ms))
            for type_, events, at_ms in types
        ],
        distinct_values=different if has_event else None,
    )


def _time(at_ms: int) -> str | None:
    """Return the time of the latest event with a property; None for a trait, which has no time."""
    return iso(at_ms) if at_ms else None
