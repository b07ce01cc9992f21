"""SQL for deletions, and for the number of events that each deletion removes from its websites."""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, and_, bindparam, exists, func, insert, or_, select, update

from penstock.base.gaps import Gap
from penstock.base.ids import ImportId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.deletions.model import (
    PEOPLE,
    AffectedEvents,
    Deletion,
    DeletionState,
    Target,
    deletion_gap,
    retention_gap,
)
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import deletion_websites, deletions

_OPEN = (DeletionState.QUEUED, DeletionState.RUNNING)
_D, _W = deletions.c, deletion_websites.c
_RETAINED = (
    select(_D.website_id, _D.kind, func.max(_D.to_at))
    .where(
        _D.workspace_id == bindparam("workspace"),
        _D.website_id.in_(bindparam("websites", expanding=True)),
        _D.target == Target.RETENTION,
    )
    .group_by(_D.website_id, _D.kind)
    .order_by(_D.website_id, _D.kind)
)
_SPANS = (
    select(
        _W.website_id,
        func.coalesce(_W.first_event_at, _D.from_at, 0),
        func.coalesce(_W.last_event_at, _D.to_at - 1, _D.created_at),
        _D.created_at,
        _D.state,
    )
    .join_from(deletion_websites, deletions, _D.id == _W.deletion_id)
    .where(
        _D.workspace_id == bindparam("workspace"),
        _W.website_id.in_(bindparam("websites", expanding=True)),
        _D.target != Target.RETENTION,  # `_RETAINED` selects retention deletions.
        # Without the import, history is as complete as before. Other imports say what they lack.
        or_(_D.target != Target.IMPORT, _D.state != DeletionState.DONE),
    )
    .where(or_(_W.events > 0, and_(_W.events.is_(None), _D.state != DeletionState.DONE)))
    .order_by(_D.created_at, _D.id, _W.website_id)
)


def add(connection: Connection, deletion: Deletion, website_ids: Collection[WebsiteId]) -> None:
    """Add a deletion. website_ids: the websites from which it may remove events."""
    connection.execute(insert(deletions).values(row_values(deletion, deletions)))
    connection.execute(
        insert(deletion_websites),
        [{"deletion_id": deletion.id, "website_id": website_id} for website_id in website_ids],
    )


def save(connection: Connection, deletion: Deletion) -> None:
    """Save a deletion's progress. Does not write the visitor IDs again, except to erase them."""
    values = row_values(deletion, deletions)
    if deletion.visitor_ids:
        del values["visitor_ids"]
    connection.execute(update(deletions).where(deletions.c.id == deletion.id).values(values))


def save_affected_events(
    connection: Connection, deletion: Deletion, affected: Mapping[WebsiteId, AffectedEvents]
) -> None:
    """Save the number and times of the events to remove, by website.

    Websites that are not in `affected` have no such events.
    """
    c = deletion_websites.c
    connection.execute(
        update(deletion_websites)
        .where(c.deletion_id == deletion.id)
        .values(events=0, first_event_at=None, last_event_at=None)
    )
    for website_id, (events, first_ms, last_ms) in affected.items():
        connection.execute(
            update(deletion_websites)
            .where(c.deletion_id == deletion.id, c.website_id == website_id)
            .values(events=events, first_event_at=first_ms, last_event_at=last_ms)
        )


def affected_events(
    connection: Connection, deletion: Deletion
) -> dict[WebsiteId, AffectedEvents | None]:
    """Return the numbers and times of the events to remove, by website.

    The value is None if there are no such events or they have not been counted yet.
    """
    c = deletion_websites.c
    rows = connection.execute(
        select(c.website_id, c.events, c.first_event_at, c.last_event_at).where(
            c.deletion_id == deletion.id
        )
    )
    return {
        WebsiteId(website_id): AffectedEvents(events, first_ms, last_ms) if events else None
        for website_id, events, first_ms, last_ms in rows
    }


def find(connection: Connection, workspace_id: WorkspaceId, deletion_id: str) -> Deletion | None:
    row = connection.execute(
        select(deletions).where(
            deletions.c.id == deletion_id, deletions.c.workspace_id == workspace_id
        )
    ).first()
    return None if row is None else record_of(row, Deletion)


def undo_of(connection: Connection, import_id: ImportId) -> Deletion | None:
    """Return the deletion that undoes an import."""
    row = connection.execute(select(deletions).where(deletions.c.import_id == import_id)).first()
    return None if row is None else record_of(row, Deletion)


def page(
    connection: Connection, workspace_id: WorkspaceId, website_id: str | None, page: Page
) -> Listing[Deletion]:
    """List deletions, newest first."""
    selected = select(deletions).where(deletions.c.workspace_id == workspace_id)
    if website_id is not None:
        selected = selected.where(deletions.c.website_id == website_id)
    newest = selected.order_by(*newest_first(deletions))
    return listing_of(connection, newest, page, lambda row: record_of(row, Deletion))


def latest_of_people(connection: Connection, workspace_id: WorkspaceId, now_ms: int) -> int | None:
    """Return when the latest deletion of a person was done; `now_ms` if one is not done yet.

    Returns None if there is no deletion of a person. Reads one entry of an index for each kind of
    target, however many deletions there are.
    """
    conditions = [and_(_D.workspace_id == workspace_id, _D.target == target) for target in PEOPLE]
    is_open = or_(*(exists().where(each, _D.finished_at.is_(None)) for each in conditions))
    latest = [select(func.max(_D.finished_at)).where(each).scalar_subquery() for each in conditions]
    [is_any_open, *times] = connection.execute(select(is_open, *latest)).one()
    return now_ms if is_any_open else max(filter(None, times), default=None)


def any_open(connection: Connection) -> bool:
    """Whether any workspace has an unfinished deletion."""
    row = connection.execute(
        select(deletions.c.id).where(deletions.c.state.in_(_OPEN)).limit(1)
    ).first()
    return row is not None


def open_deletions(connection: Connection) -> list[Deletion]:
    """Return the unfinished deletions of every workspace, oldest first."""
    rows = connection.execute(
        select(deletions)
        .where(deletions.c.state.in_(_OPEN))
        .order_by(deletions.c.created_at, deletions.c.id)
    )
    return [record_of(row, Deletion) for row in rows]


def any_person_before(connection: Connection, deletion: Deletion) -> bool:
    """Whether an earlier deletion of a person in the same scope is not done yet."""
    row = connection.execute(
        select(_D.id)
        .where(
            _D.state.in_(_OPEN),
            _D.target.in_(PEOPLE),
            _D.scope_id == deletion.scope_id,
            _D.created_at <= deletion.created_at_ms,
        )
        .limit(1)
    ).first()
    return row is not None


def retained_since(connection: Connection, website_id: WebsiteId, kind: str) -> int | None:
    """Return the time up to which retention removes a website's events of one kind.

    Returns None if this was never requested.
    """
    d = deletions.c
    return connection.execute(
        select(func.max(d.to_at)).where(
            d.website_id == website_id, d.target == Target.RETENTION, d.kind == kind
        )
    ).scalar()


def gaps(
    connection: Connection, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]
) -> list[Gap]:
    """Return the gaps that deletions and retention made in the websites' history.

    Until a deletion's events are counted, its gap is the whole period that it may change.
    """
    parameters = {"workspace": workspace_id, "websites": list(website_ids)}
    return [
        *(deletion_gap(*row) for row in connection.execute(_SPANS, parameters)),
        *(retention_gap(*row) for row in connection.execute(_RETAINED, parameters)),
    ]
