"""SQL of accounts. Each function runs in the transaction of its connection."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, or_, select, text, update

from penstock.accounts.model import (
    ApiKey,
    Caller,
    CurrentUser,
    MobileApp,
    Role,
    User,
    Website,
    WebsiteKind,
    Workspace,
)
from penstock.base.ids import KeyId, ScopeId, SessionId, UserAccountId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import (
    api_keys,
    memberships,
    sessions,
    setup_tokens,
    users,
    websites,
    workspaces,
)

MAX_SETUP_TOKENS = 100
"""Each start of a node adds one while no account exists."""

# Users and sessions


def lock_sign_ups(db: Connection) -> None:
    """Serialize sign-ups until the transaction ends. SQLite serializes all writes anyway."""
    if db.dialect.name == "postgresql":
        db.execute(text("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"))


def lock_user(db: Connection, user_id: str) -> bool:
    """Lock the user until the transaction ends. False when the user does not exist."""
    return (
        db.execute(select(users.c.id).where(users.c.id == user_id).with_for_update()).first()
        is not None
    )


def any_account(db: Connection) -> bool:
    return db.execute(select(users.c.id).limit(1)).first() is not None


def add_setup_token(db: Connection, token_hash: bytes, now_ms: int) -> None:
    """Store the token of a node. The oldest beyond `MAX_SETUP_TOKENS` are deleted."""
    newest = select(setup_tokens.c.token_hash).order_by(setup_tokens.c.created_at.desc())
    newer_hashes = db.scalars(newest.limit(MAX_SETUP_TOKENS - 1)).all()
    db.execute(delete(setup_tokens).where(setup_tokens.c.token_hash.not_in(newer_hashes)))
    db.execute(insert(setup_tokens).values(token_hash=token_hash, created_at=now_ms))


def has_setup_token(db: Connection, token_hash: bytes) -> bool:
    statement = select(setup_tokens.c.token_hash).where(setup_tokens.c.token_hash == token_hash)
    return db.execute(statement).first() is not None


def delete_setup_tokens(db: Connection) -> None:
    db.execute(delete(setup_tokens))


def email_taken(db: Connection, email: str) -> bool:
    return db.execute(select(users.c.id).where(users.c.email == email)).first() is not None


def add_user(db: Connection, user: User, password_hash: str) -> None:
    db.execute(
        insert(users).values(
            id=user.id, email=user.email, password_hash=password_hash, created_at=user.created_at_ms
        )
    )


def add_workspace(db: Connection, workspace: Workspace) -> None:
    db.execute(
        insert(workspaces).values(
            id=workspace.id, name=workspace.name, created_at=workspace.created_at_ms
        )
    )


def add_member(db: Connection, account: CurrentUser, now_ms: int) -> None:
    """Add the user to the workspace, with the role."""
    membership = {
        "workspace_id": account.workspace.id,
        "user_id": account.user.id,
        "role": account.role.value,
        "created_at": now_ms,
    }
    db.execute(insert(memberships).values(membership))


_ACCOUNT = (
    users.c.id,
    users.c.email,
    users.c.created_at,
    workspaces.c.id.label("workspace_id"),
    workspaces.c.name.label("workspace_name"),
    workspaces.c.created_at.label("workspace_created_at"),
    memberships.c.role,
)


def _current_user(row: Row[*tuple[Any, ...]]) -> CurrentUser:
    return CurrentUser(
        user=User(UserAccountId(row.id), row.email, row.created_at),
        workspace=Workspace(
            WorkspaceId(row.workspace_id), row.workspace_name, row.workspace_created_at
        ),
        role=Role(row.role),
    )


def account_by_email(db: Connection, email: str) -> tuple[CurrentUser, str] | None:
    """The user in their oldest workspace, and the password hash."""
    row = db.execute(
        select(*_ACCOUNT, users.c.password_hash)
        .join(memberships, memberships.c.user_id == users.c.id)
        .join(workspaces, workspaces.c.id == memberships.c.workspace_id)
        .where(users.c.email == email)
        .order_by(memberships.c.created_at, workspaces.c.id)
        .limit(1)
    ).first()
    return None if row is None else (_current_user(row), row.password_hash)


def add_session(
    db: Connection,
    session_id: SessionId,
    token_hash: bytes,
    account: CurrentUser,
    now_ms: int,
    expires_at_ms: int,
) -> None:
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


def session(db: Connection, token_hash: bytes, now_ms: int) -> tuple[CurrentUser, int] | None:
    """The user of an open session, and when it ends. None for a user who left the workspace."""
    row = db.execute(
        select(*_ACCOUNT, sessions.c.expires_at)
        .join(users, users.c.id == sessions.c.user_id)
        .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
        .join(
            memberships,
            (memberships.c.user_id == sessions.c.user_id)
            & (memberships.c.workspace_id == sessions.c.workspace_id),
        )
        .where(sessions.c.token_hash == token_hash, sessions.c.expires_at > now_ms)
    ).first()
    return None if row is None else (_current_user(row), row.expires_at)


def extend_session(db: Connection, token_hash: bytes, now_ms: int, expires_at_ms: int) -> None:
    db.execute(
        update(sessions)
        .where(sessions.c.token_hash == token_hash)
        .values(last_seen_at=now_ms, expires_at=expires_at_ms)
    )


def end_session(db: Connection, token_hash: bytes) -> None:
    db.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def delete_expired_sessions(db: Connection, now_ms: int) -> None:
    db.execute(delete(sessions).where(sessions.c.expires_at <= now_ms))


# API keys


def add_key(db: Connection, workspace_id: WorkspaceId, key: ApiKey, key_hash: bytes) -> None:
    db.execute(
        insert(api_keys).values(
            id=key.id,
            workspace_id=workspace_id,
            name=key.name,
            key_hash=key_hash,
            prefix=key.prefix,
            created_at=key.created_at_ms,
        )
    )


def keys(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[ApiKey]:
    """Newest first, including revoked keys."""
    statement = select(api_keys).where(api_keys.c.workspace_id == workspace_id)
    rows, total = page_of(
        db, statement.order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc()), page
    )
    page_keys = [
        ApiKey(
            KeyId(row.id), row.name, row.prefix, row.created_at, row.last_used_at, row.revoked_at
        )
        for row in rows
    ]
    return Listing(page_keys, page, total)


def key_holder(db: Connection, key_hash: bytes) -> Caller | None:
    """The caller that a key stands for. None for an unknown or revoked key."""
    row = db.execute(
        select(api_keys.c.id, api_keys.c.workspace_id).where(
            api_keys.c.key_hash == key_hash, api_keys.c.revoked_at.is_(None)
        )
    ).first()
    return (
        None
        if row is None
        else Caller(workspace_id=WorkspaceId(row.workspace_id), key_id=KeyId(row.id))
    )


def revoke_key(db: Connection, workspace_id: WorkspaceId, key_id: str, now_ms: int) -> bytes | None:
    """Revoke the key and return its hash. None when the workspace has no such key.

    Revoking again keeps the time of the first revocation.
    """
    is_key = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.id == key_id)
    db.execute(
        update(api_keys).where(is_key, api_keys.c.revoked_at.is_(None)).values(revoked_at=now_ms)
    )
    key_hash: bytes | None = db.scalar(select(api_keys.c.key_hash).where(is_key))
    return key_hash


def update_last_uses(db: Connection, used_at_ms: Mapping[KeyId, int]) -> None:
    """Advance `last_used_at`; another node may have written a later use already."""
    statement = (
        update(api_keys)
        .where(
            api_keys.c.id == bindparam("key"),
            or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("at")),
        )
        .values(last_used_at=bindparam("at"))
    )
    db.execute(statement, [{"key": key, "at": at_ms} for key, at_ms in sorted(used_at_ms.items())])


# Websites


def _app(values: Mapping[str, Any]) -> MobileApp:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
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
        retention_days=row.retention_days or {},
    )


def _app_values(app: MobileApp) -> dict[str, Any]:
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
            app=_app_values(website.app),
            retention_days=dict(website.retention_days) or None,
            created_at=website.created_at_ms,
            updated_at=website.updated_at_ms,
        )
    )


def website(db: Connection, website_id: str, *, lock: bool = False) -> Website | None:
    """The website, in any workspace, unless deleted. lock: hold the row in this transaction."""
    statement = select(websites).where(websites.c.id == website_id, websites.c.deleted_at.is_(None))
    row = db.execute(statement.with_for_update() if lock else statement).first()
    return None if row is None else _website(row)


def _workspace_websites(workspace_id: WorkspaceId) -> Select[Any]:
    return (
        select(websites)
        .where(websites.c.workspace_id == workspace_id, websites.c.deleted_at.is_(None))
        .order_by(websites.c.created_at, websites.c.id)
    )


def websites_page(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
    """Oldest first."""
    rows, total = page_of(db, _workspace_websites(workspace_id), page)
    return Listing([_website(row) for row in rows], page, total)


def all_websites(db: Connection, workspace_id: WorkspaceId) -> list[Website]:
    return [_website(row) for row in db.execute(_workspace_websites(workspace_id))]


def websites_with_retention(db: Connection) -> list[Website]:
    """Websites of every workspace that do not keep all events for ever."""
    statement = select(websites).where(
        websites.c.retention_days.is_not(None), websites.c.deleted_at.is_(None)
    )
    return [_website(row) for row in db.execute(statement.order_by(websites.c.id))]


def mobile_apps(db: Connection) -> tuple[MobileApp, ...]:
    """The apps of all workspaces, oldest first: they share the installation's one public host."""
    apps = select(websites.c.app).where(
        websites.c.kind == WebsiteKind.MOBILE.value, websites.c.deleted_at.is_(None)
    )
    return tuple(
        _app(values) for values in db.scalars(apps.order_by(websites.c.created_at, websites.c.id))
    )


def scope_websites(db: Connection, workspace_id: WorkspaceId, scope_id: ScopeId) -> list[WebsiteId]:
    """Websites of the identity scope, oldest first, including deleted ones."""
    statement = select(websites.c.id).where(
        websites.c.workspace_id == workspace_id, websites.c.scope_id == scope_id
    )
    return [
        WebsiteId(website_id)
        for website_id in db.execute(
            statement.order_by(websites.c.created_at, websites.c.id)
        ).scalars()
    ]


def update_website(db: Connection, website: Website) -> None:
    """Store the name, domain, app and retention of the website."""
    db.execute(
        update(websites)
        .where(websites.c.id == website.id)
        .values(
            name=website.name,
            domain=website.domain,
            app=_app_values(website.app),
            retention_days=dict(website.retention_days) or None,
            updated_at=website.updated_at_ms,
        )
    )


def delete_website(db: Connection, workspace_id: WorkspaceId, website_id: str, now_ms: int) -> bool:
    """Mark the website as deleted. False when there is none. Stored events still need the row."""
    result = db.execute(
        update(websites)
        .where(
            websites.c.workspace_id == workspace_id,
            websites.c.id == website_id,
            websites.c.deleted_at.is_(None),
        )
        .values(deleted_at=now_ms, updated_at=now_ms)
    )
    return result.rowcount > 0
