"""Records with a name in their workspace, such as goals, segments, cohorts and funnels.

Their tables have the columns `id`, `workspace_id`, `name` and `created_at`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, insert, select, update

from penstock.base.errors import Conflict, StoreConflict
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Page
from penstock.metadb.pages import name_contains, newest_first, page_of
from penstock.metadb.workspaces import hold_workspace


@contextmanager
def unique_name(noun: str, name: str) -> Iterator[None]:
    """Raise Conflict if the database rejects a second record with the same name.

    noun: noun for the record, such as `goal`.
    """
    try:
        yield
    except StoreConflict:
        message = f"name: A {noun} named {name} already exists. Choose another name."
        raise Conflict(message, code="name_taken") from None


def check_number(
    db: Connection, table: Table, workspace_id: WorkspaceId, maximum: int, nouns: str, *, code: str
) -> None:
    """Lock the workspace, and raise Conflict if it has the maximum number of records.

    nouns: plural noun for the records, such as `segments`. code: code of the error.
    """
    hold_workspace(db, workspace_id)
    of_workspace = table.c.workspace_id == workspace_id
    if db.execute(select(func.count()).where(of_workspace)).scalar_one() >= maximum:
        message = f"The workspace has {maximum} {nouns}, the most it can have. Delete one first."
        raise Conflict(message, code=code)


def named_record(
    db: Connection,
    table: Table,
    workspace_id: WorkspaceId,
    record_id: str,
    *conditions: ColumnElement[bool],
    hold: bool = False,
) -> Row[*tuple[Any, ...]] | None:
    """Read a record. hold: whether to lock its row until the transaction ends."""
    own = (table.c.workspace_id == workspace_id, table.c.id == record_id, *conditions)
    statement = select(table).where(*own)
    return db.execute(statement.with_for_update() if hold else statement).first()


def named_page(
    db: Connection,
    table: Table,
    workspace_id: WorkspaceId,
    page: Page,
    search: str,
    *conditions: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]] = (),
) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """Return a page of records, by default the newest first, and their total number.

    search: text that the name must contain, ignoring case.
    """
    c = table.c
    matching = select(table).where(
        c.workspace_id == workspace_id, name_contains(c.name, search), *conditions
    )
    return page_of(db, matching.order_by(*(order or newest_first(table))), page)


def add_named(
    db: Connection, table: Table, workspace_id: WorkspaceId, row: Mapping[str, object]
) -> None:
    """Add a record. Raises `StoreConflict` if the workspace has one with this name."""
    db.execute(insert(table).values(workspace_id=workspace_id, **row))


def change_named(
    db: Connection, table: Table, record_id: str, changed: Mapping[str, object]
) -> None:
    """Change columns of a record. Raises `StoreConflict` if another one has the new name."""
    db.execute(update(table).where(table.c.id == record_id).values(changed))


def delete_named(db: Connection, table: Table, record_id: str) -> None:
    db.execute(delete(table).where(table.c.id == record_id))
