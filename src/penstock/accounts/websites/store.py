"""SQL for websites. Each function runs in the transaction of its connection."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, null, select, update

from penstock.accounts.model import MobileApp, Website, WebsiteKind
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import record_values, row_values
from penstock.metadb.tables import websites, workspaces

_MAX_LISTED_APPS = 5_000
"""Maximum number of apps to read. It is larger than the number that fits into the files for phones.
"""


def _app(values: Mapping[str, Any]) -> MobileApp:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return MobileApp(**fields)


def _website(row: Row[Any]) -> Website:
    values = record_values(row, (field.name for field in fields(Website)))
    values["kind"], values["app"] = WebsiteKind(row.kind), _app(row.app)
    return Website(**values | {"retention_days": row.retention_days or {}})


def _columns(website: Website) -> dict[str, Any]:
    app = {name: value for name, value in asdict(website.app).items() if value not in (None, ())}
    values = row_values(website, websites, without=("deleted_at",))
    return values | {"app": app, "retention_days": dict(website.retention_days) or null()}


def add_website(db: Connection, website: Website) -> None:
    db.execute(insert(websites).values(_columns(website)))


def website(
    db: Connection, website_id: str, *, lock: bool = False, with_deleted: bool = False
) -> Website | None:
    """Find the website in any workspace.

    lock: whether to lock the row until the transaction ends.
    """
    statement = select(websites).where(websites.c.id == website_id)
    if not with_deleted:
        statement = statement.where(websites.c.deleted_at.is_(None))
    row = db.execute(statement.with_for_update() if lock else statement).first()
    return None if row is None else _website(row)


_WORKSPACE_WEBSITES = (
    select(websites)
    .where(websites.c.workspace_id == bindparam("workspace"), websites.c.deleted_at.is_(None))
    .order_by(websites.c.created_at, websites.c.id)
)


def websites_page(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
    """List the workspace's websites, oldest first."""
    return listing_of(db, _WORKSPACE_WEBSITES, page, _website, {"workspace": workspace_id})


def all_websites(db: Connection, workspace_id: WorkspaceId) -> list[Website]:
    return [_website(row) for row in db.execute(_WORKSPACE_WEBSITES, {"workspace": workspace_id})]


def websites_with_retention(db: Connection) -> list[Website]:
    """Return websites of every workspace that have a retention period, including deleted ones,
    whose events are kept.
    """
    statement = select(websites).where(websites.c.retention_days.is_not(None))
    return [_website(row) for row in db.execute(statement.order_by(websites.c.id))]


def count_apps(db: Connection, workspace_id: WorkspaceId) -> int:
    """Count the mobile apps of a workspace. Locks the workspace until the transaction ends."""
    db.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update())
    c = websites.c
    return db.execute(
        select(func.count()).where(
            c.workspace_id == workspace_id,
            c.kind == WebsiteKind.MOBILE.value,
            c.deleted_at.is_(None),
        )
    ).scalar_one()


def mobile_apps(db: Connection) -> tuple[MobileApp, ...]:
    """Return the apps of all workspaces, which share the installation's single public host.

    The result starts with the oldest app of each workspace, then the second-oldest, and so on. So
    no workspace can crowd out the others when a file is full.
    """
    c = websites.c
    rank = func.row_number().over(partition_by=c.workspace_id, order_by=(c.created_at, c.id))
    apps = select(c.app).where(c.kind == WebsiteKind.MOBILE.value, c.deleted_at.is_(None))
    ordered = apps.order_by(rank, c.created_at, c.id).limit(_MAX_LISTED_APPS)
    return tuple(_app(values) for values in db.scalars(ordered))


def scope_websites(db: Connection, workspace_id: WorkspaceId, scope_id: ScopeId) -> list[WebsiteId]:
    """Return the IDs of the identity scope's websites, oldest first, including deleted ones."""
    c = websites.c
    in_scope = select(c.id).where(c.workspace_id == workspace_id, c.scope_id == scope_id)
    return [WebsiteId(each) for each in db.scalars(in_scope.order_by(c.created_at, c.id))]


def update_website(db: Connection, website: Website) -> None:
    """Store the changed fields of the website."""
    db.execute(update(websites).where(websites.c.id == website.id).values(_columns(website)))


def delete_website(db: Connection, workspace_id: WorkspaceId, website_id: str, now_ms: int) -> bool:
    """Mark the website as deleted. Returns False if there is none. Stored events still need the
    row.
    """
    c = websites.c
    is_website = (c.workspace_id == workspace_id, c.id == website_id, c.deleted_at.is_(None))
    deleted = update(websites).where(*is_website).values(deleted_at=now_ms, updated_at=now_ms)
    return db.execute(deleted).rowcount > 0
