"""One page of a query's rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from penstock.base.paging import Page


def page_of(db: Connection, statement: Select[*tuple[Any, ...]], page: Page) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """The rows of the page, and how many there are in all. statement: ordered."""
    total = db.scalar(select(func.count()).select_from(statement.order_by(None).subquery()))
    return db.execute(statement.limit(page.size).offset(page.offset)).all(), total or 0
