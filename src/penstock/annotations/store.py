"""SQL for annotations. Each function runs in the transaction of its connection."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update

from penstock.annotations.model import Annotation
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import annotations

_C = annotations.c
_NEWEST_FIRST = (_C.at.desc(), _C.id.desc())


def _is(workspace_id: WorkspaceId, annotation_id: str) -> Sequence[ColumnElement[bool]]:
    return _C.workspace_id == workspace_id, _C.id == annotation_id


def find(db: Connection, workspace_id: WorkspaceId, annotation_id: str) -> Annotation | None:
    """Return the annotation, locked until the transaction ends."""
    own = _is(workspace_id, annotation_id)
    row = db.execute(select(annotations).where(*own).with_for_update()).first()
    return None if row is None else _annotation(row)


def add(db: Connection, annotation: Annotation) -> None:
    db.execute(insert(annotations).values(row_values(annotation, annotations)))


def change(db: Connection, annotation: Annotation) -> None:
    own = _is(annotation.workspace_id, annotation.id)
    db.execute(update(annotations).where(*own).values(row_values(annotation, annotations)))


def remove(db: Connection, workspace_id: WorkspaceId, annotation_id: str) -> None:
    db.execute(delete(annotations).where(*_is(workspace_id, annotation_id)))


def page(
    db: Connection, workspace_id: WorkspaceId, website_id: str | None, page: Page
) -> Listing[Annotation]:
    """List annotations, the latest first. website_id: only those of this website."""
    statement = select(annotations).where(_C.workspace_id == workspace_id)
    if website_id is not None:
        statement = statement.where(_C.website_id == website_id)
    return listing_of(db, statement.order_by(*_NEWEST_FIRST), page, _annotation)


def shown(
    db: Connection,
    workspace_id: WorkspaceId,
    only: Mapping[str, str],
    start_ms: int,
    end_ms: int,
    limit: int,
) -> list[Annotation]:
    """Return the latest annotations in a period that a report shows, the latest first.

    only: the funnel and the website of the report, by column; a report without one shows those of
    all.
    """
    fits: list[Any] = [or_(_C[name].is_(None), _C[name] == value) for name, value in only.items()]
    in_period = (_C.workspace_id == workspace_id, _C.at >= start_ms, _C.at < end_ms)
    statement = select(annotations).where(*in_period, *fits).order_by(*_NEWEST_FIRST)
    return [_annotation(row) for row in db.execute(statement.limit(limit))]


def _annotation(row: Any) -> Annotation:
    return record_of(row, Annotation)
