"""The SQL of accounts. Each function works inside the transaction of the connection that it is given."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, or_, select, text, update

from penstock.accounts.model import (
    ApiKey,
    Caller,
    MobileApp,
    QueryLimits,
    Role,
    SignedIn,
    User,
    Website,
    WebsiteKind,
    Workspace,
    WorkspaceSettings,
)
from penstock.base.ids import KeyId, ScopeId, SessionId, UserAccountId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import api_keys, memberships, sessions, users, websites, workspaces

# Users and sessions ---------------------------------------------------------------------------------------------------


def hold_sign_ups(db: Connection) -> None:
    """Let no other sign-up pass until this transaction ends. A write on SQLite is alone from its beginning."""
    if db.dialect.name == "postgresql":
        db.execute(text("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"))


def any_account(db: Connection) -> bool:
    return db.execute(select(users.c.id).limit(1)).first() is not None


def email_taken(db: Connection, email: str) -> bool:
    return db.execute(select(users.c.id).where(users.c.email == email)).first() is not None


def add_user(db: Connection, user: User, password_hash: str) -> None:
    db.execute(insert(users).values(id=user.id, email=user.email, password_hash=password_hash, created_at=user.created_at_ms))


def add_workspace(db: Connection, workspace: Workspace) -> None:
    db.execute(insert(workspaces).values(id=workspace.id, name=workspace.name, created_at=workspace.created_at_ms))


def add_member(db: Connection, account: SignedIn, now_ms: int) -> None:
    """The user joins the workspace in the role."""
    joins = {"workspace_id": account.workspace.id, "user_id": account.user.id, "role": account.role.value, "created_at": now_ms}
    db.execute(insert(memberships).values(joins))


_ACCOUNT = (
    users.c.id,
    users.c.email,
    users.c.created_at,
    workspaces.c.id.label("workspace_id"),
    workspaces.c.name.label("workspace_name"),
    workspaces.c.created_at.label("workspace_created_at"),
    memberships.c.role,
)


def _signed_in(row: Row[*tuple[Any, ...]]) -> SignedIn:
    return SignedIn(
        user=User(UserAccountId(row.id), row.email, row.created_at),
        workspace=Workspace(WorkspaceId(row.workspace_id), row.workspace_name, row.workspace_created_at),
        role=Role(row.role),
    )


def account_by_email(db: Connection, email: str) -> tuple[SignedIn, str] | None:
    """The account in its oldest workspace, and its password hash."""
    row = db.execute(
        select(*_ACCOUNT, users.c.password_hash)
        .join(memberships, memberships.c.user_id == users.c.id)
        .join(workspaces, workspaces.c.id == memberships.c.workspace_id)
        .where(users.c.email == email)
        .order_by(memberships.c.created_at, workspaces.c.id)
        .limit(1)
    ).first()
    return None if row is None else (_signed_in(row), row.password_hash)


def add_session(db: Connection, session_id: SessionId, token_hash: bytes, account: SignedIn, now_ms: int, expires_at_ms: int) -> None:
    db.execute(
        insert(sessions).values(
            token_hash=token_hash,
            id=session_id,
            user_id=account.user.id,
            workspace_id=account.workspace.id,
            created_at=now_ms,
            last_seen_at=now_ms,
            expires_at=expires_at_ms,
        )
    )


def session(db: Connection, token_hash: bytes, now_ms: int) -> tuple[SignedIn, int] | None:
    """Who an open session stands for, and when it ends. One whose user has left the workspace stands for nobody."""
    row = db.execute(
        select(*_ACCOUNT, sessions.c.expires_at)
        .join(users, users.c.id == sessions.c.user_id)
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(
            memberships,
            (memberships.c.user_id == sessions.c.user_id) & (memberships.c.workspace_id == sessions.c.workspace_id),
        )
        .where(sessions.c.token_hash == token_hash, sessions.c.expires_at > now_ms)
    ).first()
    return None if row is None else (_signed_in(row), row.expires_at)


def extend_session(db: Connection, token_hash: bytes, now_ms: int, expires_at_ms: int) -> None:
    db.execute(update(sessions).where(sessions.c.token_hash == token_hash).values(last_seen_at=now_ms, expires_at=expires_at_ms))


def end_session(db: Connection, token_hash: bytes) -> None:
    db.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def drop_ended_sessions(db: Connection, now_ms: int) -> None:
    db.execute(delete(sessions).where(sessions.c.expires_at <= now_ms))


# Settings of a workspace ----------------------------------------------------------------------------------------------


def workspace_settings(db: Connection, workspace_id: WorkspaceId, *, hold: bool = False) -> WorkspaceSettings:
    """hold: until the transaction ends, nobody else changes them."""
    columns = (workspaces.c.name, workspaces.c.query_timeout_s, workspaces.c.query_memory_bytes)
    found = select(*columns).where(workspaces.c.id == workspace_id)
    row = db.execute(found.with_for_update(key_share=True) if hold else found).one()
    return WorkspaceSettings(row.name, QueryLimits(row.query_timeout_s, row.query_memory_bytes))


def change_workspace(db: Connection, workspace_id: WorkspaceId, settings: WorkspaceSettings) -> None:
    limits = settings.limits
    changed = {"name": settings.name, "query_timeout_s": limits.timeout_s, "query_memory_bytes": limits.memory_bytes}
    db.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(changed))


# API keys -------------------------------------------------------------------------------------------------------------


def add_key(db: Connection, workspace_id: WorkspaceId, key: ApiKey, key_hash: bytes) -> None:
    db.execute(
        insert(api_keys).values(
            id=key.id, workspace_id=workspace_id, name=key.name, key_hash=key_hash, prefix=key.prefix, created_at=key.created_at_ms
        )
    )


def keys(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[ApiKey]:
    """Newest first, revoked ones too."""
    mine = select(api_keys).where(api_keys.c.workspace_id == workspace_id)
    rows, total = page_of(db, mine.order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc()), page)
    found = [ApiKey(KeyId(row.id), row.name, row.prefix, row.created_at, row.last_used_at, row.revoked_at) for row in rows]
    return Listing(found, page, total)


def key_holder(db: Connection, key_hash: bytes) -> Caller | None:
    """On whose behalf a key acts; None for one that is revoked or was never made."""
    row = db.execute(
        select(api_keys.c.id, api_keys.c.workspace_id).where(api_keys.c.key_hash == key_hash, api_keys.c.revoked_at.is_(None))
    ).first()
    return None if row is None else Caller(workspace_id=WorkspaceId(row.workspace_id), key_id=KeyId(row.id))


def revoke_key(db: Connection, workspace_id: WorkspaceId, key_id: str, now_ms: int) -> bytes | None:
    """The hash of the key that is now revoked; None when the workspace has no such key. The first revocation's time stays."""
    mine = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.id == key_id)
    db.execute(update(api_keys).where(mine, api_keys.c.revoked_at.is_(None)).values(revoked_at=now_ms))
    key_hash: bytes | None = db.scalar(select(api_keys.c.key_hash).where(mine))
    return key_hash


def note_last_uses(db: Connection, used_at_ms: Mapping[KeyId, int]) -> None:
    """Move `last_used_at` forward; another node may have noted a later use."""
    statement = (
        update(api_keys)
        .where(
            api_keys.c.id == bindparam("key"),
            or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("at")),
        )
        .values(last_used_at=bindparam("at"))
    )
    db.execute(statement, [{"key": key, "at": at_ms} for key, at_ms in sorted(used_at_ms.items())])


# Websites -------------------------------------------------------------------------------------------------------------


def _app(told: Mapping[str, Any]) -> MobileApp:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return MobileApp(**fields)


def _website(row: Row[Any]) -> Website:
    return Website(
        id=WebsiteId(row.id),
        workspace_id=WorkspaceId(row.workspace_id),
        name=row.name,
        kind=WebsiteKind(row.kind),
        domain=row.domain,
        identity_scope=row.identity_scope,
        scope_id=ScopeId(row.scope_id),
        created_at_ms=row.created_at,
        updated_at_ms=row.updated_at,
        app=_app(row.app),
    )


def _told_of(app: MobileApp) -> dict[str, Any]:
    return {name: value for name, value in asdict(app).items() if value not in (None, ())}


def add_website(db: Connection, website: Website) -> None:
    db.execute(
        insert(websites).values(
            id=website.id,
            workspace_id=website.workspace_id,
            name=website.name,
            kind=website.kind.value,
            domain=website.domain,
            identity_scope=website.identity_scope,
            scope_id=website.scope_id,
            app=_told_of(website.app),
            created_at=website.created_at_ms,
            updated_at=website.updated_at_ms,
        )
    )


def website(db: Connection, website_id: str, *, hold: bool = False) -> Website | None:
    """One that is not deleted, of whatever workspace. hold: keep others from changing it until the transaction ends."""
    statement = select(websites).where(websites.c.id == website_id, websites.c.deleted_at.is_(None))
    row = db.execute(statement.with_for_update() if hold else statement).first()
    return None if row is None else _website(row)


def _websites_of(workspace_id: WorkspaceId) -> Select[Any]:
    return (
        select(websites)
        .where(websites.c.workspace_id == workspace_id, websites.c.deleted_at.is_(None))
        .order_by(websites.c.created_at, websites.c.id)
    )


def websites_page(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
    """Oldest first."""
    rows, total = page_of(db, _websites_of(workspace_id), page)
    return Listing([_website(row) for row in rows], page, total)


def all_websites(db: Connection, workspace_id: WorkspaceId) -> list[Website]:
    return [_website(row) for row in db.execute(_websites_of(workspace_id))]


def mobile_apps(db: Connection) -> tuple[MobileApp, ...]:
    """What each app of the installation tells of itself, oldest first: of every workspace, for its one host is all of theirs."""
    apps = select(websites.c.app).where(websites.c.kind == WebsiteKind.MOBILE.value, websites.c.deleted_at.is_(None))
    return tuple(_app(told) for told in db.scalars(apps.order_by(websites.c.created_at, websites.c.id)))


def scope_websites(db: Connection, workspace_id: WorkspaceId, scope_id: ScopeId) -> list[WebsiteId]:
    """Websites of one identity scope, the oldest first; those that were deleted, too."""
    of_scope = select(websites.c.id).where(websites.c.workspace_id == workspace_id, websites.c.scope_id == scope_id)
    return [WebsiteId(website_id) for website_id in db.execute(of_scope.order_by(websites.c.created_at, websites.c.id)).scalars()]


def change_website(db: Connection, website: Website) -> None:
    """Write what of a website can change: its name, domain and app."""
    db.execute(
        update(websites)
        .where(websites.c.id == website.id)
        .values(name=website.name, domain=website.domain, app=_told_of(website.app), updated_at=website.updated_at_ms)
    )


def delete_website(db: Connection, workspace_id: WorkspaceId, website_id: str, now_ms: int) -> bool:
    """Whether there was one to delete. The row stays, for the events that name it."""
    result = db.execute(
        update(websites)
        .where(websites.c.workspace_id == workspace_id, websites.c.id == website_id, websites.c.deleted_at.is_(None))
        .values(deleted_at=now_ms, updated_at=now_ms)
    )
    return result.rowcount > 0
