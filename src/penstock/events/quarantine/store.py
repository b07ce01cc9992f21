"""SQL for the quarantine."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import json
from sqlalchemy import ColumnElement, Connection, Row, case, delete, func, insert, or_, select, true

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.quarantine.model import QuarantineEntry, QuarantineLimits, Reason
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import record_values
from penstock.metadb.tables import quarantine, websites
from penstock.warehouse.work import check_limits

_MAX_FAULTS = 10
_PAGE = 200

c = quarantine.c

_IS_PUBLIC_KEY = "isPublic"
"""The key in `sender` that stores `is_public`. Entries without it count as public."""

_IS_PUBLIC = func.coalesce(c.sender[_IS_PUBLIC_KEY].as_boolean(), true())
_ENTRY = (*c, _IS_PUBLIC.label("is_public"))

_SAME_COLUMNS = {*QuarantineEntry._fields} - {"number", "reason", "faults"}
"""Fields of an entry that are stored unchanged."""

_WORTH = case((c.reason == Reason.UNSHIPPABLE, 2), (_IS_PUBLIC, 0), else_=1)
"""Rank of an entry. Accepted events rank highest, because this is their only copy. Entries that
anyone may have sent rank lowest.
"""


def add(
    connection: Connection, entries: Sequence[QuarantineEntry], limits: QuarantineLimits
) -> Mapping[WebsiteId, int]:
    """Add entries under new numbers. Returns the number of dropped entries by website."""
    if not entries:
        return {}
    connection.execute(insert(quarantine), [_values(entry) for entry in entries])
    dropped = Counter[WebsiteId]()
    for workspace_id, website_id in {(entry.workspace_id, entry.website_id) for entry in entries}:
        number = _drop_surplus(connection, workspace_id, website_id, limits)
        if website_id is not None and number:
            dropped[website_id] += number
    return dropped


def _values(entry: QuarantineEntry) -> dict[str, Any]:
    errors = [[fault.field, fault.code, fault.message] for fault in entry.faults[:_MAX_FAULTS]]
    texts = (entry.content or "", json.encode(errors).decode())
    return {
        "workspace_id": entry.workspace_id,
        "website_id": entry.website_id,
        "at": entry.at_ms,
        "reason": entry.reason,
        "origin": entry.origin,
        "code": entry.code,
        "bytes": sum(len(text.encode()) for text in texts),
        "errors": errors,
        "sender": {**entry.sender, _IS_PUBLIC_KEY: entry.is_public},
        "content": entry.content,
    }


def _drop_surplus(
    connection: Connection,
    workspace_id: WorkspaceId,
    website_id: WebsiteId | None,
    limits: QuarantineLimits,
) -> int:
    """Delete a website's surplus entries. Returns the number of deleted entries.

    The least useful entries are deleted first, starting with the oldest. One entry always remains.
    """
    # SQLAlchemy turns None into IS NULL.
    own = (c.workspace_id == workspace_id, c.website_id == website_id)
    rows, size = connection.execute(
        select(func.count(), func.coalesce(func.sum(c.bytes), 0)).where(*own)
    ).one()
    if rows <= limits.rows and size <= limits.bytes:
        return 0
    surplus = []
    for number, entry_bytes in connection.execute(
        select(c.id, c.bytes).where(*own).order_by(_WORTH, c.id).limit(max(rows - 1, 0))
    ):
        if rows <= limits.rows and size <= limits.bytes:
            break
        surplus.append(number)
        rows, size = rows - 1, size - entry_bytes
    for start in range(0, len(surplus), _PAGE):
        connection.execute(delete(quarantine).where(*own, c.id.in_(surplus[start : start + _PAGE])))
    return len(surplus)


def _entry(row: Row[Any]) -> QuarantineEntry:
    return QuarantineEntry(
        number=row.id,
        reason=Reason(row.reason),
        faults=tuple(Fault(*fault) for fault in row.errors),
        **record_values(row, _SAME_COLUMNS),
    )


def _of(
    workspace_id: WorkspaceId, website_id: WebsiteId | None, *, with_unknown: bool
) -> list[ColumnElement[bool]]:
    own = [c.workspace_id == workspace_id]
    if website_id is not None:
        of_website = c.website_id == website_id
        own.append(or_(of_website, c.website_id.is_(None)) if with_unknown else of_website)
    return own


def page(
    connection: Connection,
    workspace_id: WorkspaceId,
    website_id: WebsiteId | None,
    page: Page,
    *,
    with_unknown: bool,
) -> Listing[QuarantineEntry]:
    """List entries, newest first.

    website_id: None for the whole workspace. with_unknown: see `QuarantineService.page`.
    """
    own = _of(workspace_id, website_id, with_unknown=with_unknown)
    return listing_of(connection, select(*_ENTRY).where(*own).order_by(c.id.desc()), page, _entry)


def after(
    connection: Connection, workspace_id: WorkspaceId, website_id: WebsiteId, number: int
) -> list[QuarantineEntry]:
    """Return the next page of a website's entries after the given number, oldest first."""
    own = (c.workspace_id == workspace_id, c.website_id == website_id)
    rows = connection.execute(
        select(*_ENTRY).where(*own, c.id > number).order_by(c.id).limit(_PAGE)
    )
    return [_entry(row) for row in rows]


def entries_by_reason(connection: Connection) -> dict[str, float]:
    """Return the number of entries in all workspaces, by reason."""
    numbers = connection.execute(select(c.reason, func.count()).group_by(c.reason))
    return {reason.value: 0.0 for reason in Reason} | {
        reason: float(number) for reason, number in numbers
    }


def find(connection: Connection, workspace_id: WorkspaceId, number: int) -> QuarantineEntry | None:
    row = connection.execute(
        select(*_ENTRY).where(c.workspace_id == workspace_id, c.id == number)
    ).first()
    return None if row is None else _entry(row)


def lock(connection: Connection, numbers: Collection[int]) -> set[int]:
    """Lock entries against other nodes. Returns the numbers of the entries that exist."""
    if not numbers:
        return set()
    locked = connection.execute(select(c.id).where(c.id.in_(numbers)).with_for_update())
    return set(locked.scalars())


def remove(connection: Connection, numbers: Collection[int]) -> set[int]:
    """Delete entries. Returns the numbers of the entries that existed."""
    if not numbers:
        return set()
    deleted = connection.execute(delete(quarantine).where(c.id.in_(numbers)).returning(c.id))
    return set(deleted.scalars())


def entries_where(
    connection: Connection,
    website_ids: Collection[str],
    condition: Callable[[QuarantineEntry], bool],
    number: int = 0,
) -> Iterator[QuarantineEntry]:
    """Find entries of these websites that meet a condition, reading in pages.

    number: number of the entry after which to start.
    """
    first = number
    for website_id, workspace_id in owners(connection, website_ids).items():
        number = first
        while entries := after(connection, workspace_id, website_id, number):
            check_limits()
            number = entries[-1].number
            yield from filter(condition, entries)


def owners(connection: Connection, website_ids: Collection[str]) -> dict[WebsiteId, WorkspaceId]:
    """Return workspace IDs by website ID."""
    rows = connection.execute(
        select(websites.c.id, websites.c.workspace_id).where(websites.c.id.in_(website_ids))
    )
    return {WebsiteId(website_id): WorkspaceId(workspace_id) for website_id, workspace_id in rows}


def owner_of_scope(connection: Connection, scope_id: str) -> tuple[WorkspaceId, WebsiteId] | None:
    """Return a website with this identity scope, and its workspace; None if there is no website."""
    row = connection.execute(
        select(websites.c.workspace_id, websites.c.id)
        .where(websites.c.scope_id == scope_id)
        .limit(1)
    ).first()
    return None if row is None else (WorkspaceId(row[0]), WebsiteId(row[1]))
