"""Reads query results in pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, func, select, true

from penstock.base.paging import Listing, Page

T = TypeVar("T")


def page_of(
    db: Connection,
    statement: Select[*tuple[Any, ...]],
    page: Page,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """Return the rows of the page, and the total number of rows. statement: must be ordered."""
    rows = db.execute(statement.limit(page.size).offset(page.offset), parameters).all()
    if len(rows) < page.size and (rows or not page.offset):
        return rows, page.offset + len(rows)  # this is the last page
    count = select(func.count()).select_from(statement.order_by(None).subquery())
    total = db.scalar(count, parameters)
    return rows, total or 0


def listing_of(
    db: Connection,
    statement: Select[*tuple[Any, ...]],
    page: Page,
    read: Callable[[Row[*tuple[Any, ...]]], T],
    parameters: Mapping[str, Any] | None = None,
) -> Listing[T]:
    """Return a page of records. statement: must be ordered. read: builds a record from a row."""
    rows, total = page_of(db, statement, page, parameters)
    return Listing([read(row) for row in rows], page, total)


def newest_first(table: Table) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the order in which most lists have their records."""
    return table.c.created_at.desc(), table.c.id.desc()


def name_contains(name: ColumnElement[str], search: str) -> ColumnElement[bool]:
    """Whether a name contains a text, ignoring case. Every name contains the empty text.

    SQLite ignores case only for ASCII letters.
    """
    return name.icontains(search, autoescape=True) if search else true()
