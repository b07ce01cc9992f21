"""SQL for providers. Functions run in the caller's transaction."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.sql.elements import ColumnElement

from penstock.accounts.model import SigningSecret, Website
from penstock.base.chunks import chunks
from penstock.base.clock import iso
from penstock.base.ids import ScopeId, VisitorId
from penstock.base.payment_providers import Provider
from penstock.metadb.rows import change_rows, record_of, row_values
from penstock.metadb.tables import provider_customers, provider_secrets

# This works on SQLite and PostgreSQL. It inserts nothing if the visitor has just been deleted, and
# never lets an older event overwrite a newer one.
_UPSERT_CUSTOMER = text("""
    INSERT INTO provider_customers (scope_id, key, visitor_id, occurred_at)
    SELECT :scope_id, :key, visitor_id, :occurred_at
    FROM visitors WHERE scope_id = :scope_id AND visitor_id = :visitor_id
    ON CONFLICT (scope_id, key) DO UPDATE
    SET visitor_id = excluded.visitor_id, occurred_at = excluded.occurred_at
    WHERE provider_customers.occurred_at <= excluded.occurred_at
""")


def visitor_customers(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> list[dict[str, Any]]:
    """Return the visitors' customers: hex hashes of IDs and email addresses, and times of the
    newest events.
    """
    c = provider_customers.c
    return [
        {"visitorId": row.visitor_id, "hash": row.key.hex(), "newestEventAt": iso(row.occurred_at)}
        for chunk in chunks(visitor_ids)
        for row in db.execute(
            select(provider_customers).where(c.scope_id == scope_id, c.visitor_id.in_(chunk))
        )
    ]


def forget_customers(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> int:
    """Delete the customers of visitors that are being deleted. Returns the number of deleted
    customers.
    """
    where = {"scope_id": scope_id}
    return change_rows(db, "DELETE FROM provider_customers", where, "visitor_id", visitor_ids)


def _belongs_to(website: Website, provider: Provider | None = None) -> ColumnElement[bool]:
    c = provider_secrets.c
    in_website = (c.workspace_id == website.workspace_id) & (c.website_id == website.id)
    return in_website if provider is None else in_website & (c.provider == provider.value)


def secrets(db: Connection, website: Website) -> list[tuple[Provider, SigningSecret]]:
    """Return all secrets of a website, including expired ones, still sealed.

    They are sorted by provider. Each provider's current secret comes first, then the others, newest
    first.
    """
    c = provider_secrets.c
    rows = db.execute(
        select(c.id, c.secret, c.created_at, c.valid_until, c.provider)
        .where(_belongs_to(website))
        .order_by(c.provider, c.valid_until.is_not(None), c.created_at.desc(), c.id.desc())
    )
    return [(Provider(row.provider), record_of(row, SigningSecret)) for row in rows]


def add_secret(db: Connection, website: Website, provider: Provider, secret: SigningSecret) -> None:
    keys = {
        "workspace_id": website.workspace_id,
        "website_id": website.id,
        "provider": provider.value,
    }
    values = row_values(secret, provider_secrets, without=keys)
    db.execute(insert(provider_secrets).values(values | keys))


def set_valid_until(
    db: Connection, website: Website, provider: Provider, secret_id: str, valid_until_ms: int | None
) -> None:
    db.execute(
        update(provider_secrets)
        .where(_belongs_to(website, provider), provider_secrets.c.id == secret_id)
        .values(valid_until=valid_until_ms)
    )


def delete_expired(db: Connection, website: Website, now_ms: int) -> None:
    db.execute(
        delete(provider_secrets).where(
            _belongs_to(website), provider_secrets.c.valid_until <= now_ms
        )
    )


def remove(db: Connection, website: Website, provider: Provider) -> bool:
    """Delete all secrets of a provider. Returns False if there were none."""
    return db.execute(delete(provider_secrets).where(_belongs_to(website, provider))).rowcount > 0


def find_customer(db: Connection, scope_id: ScopeId, keys: Sequence[bytes]) -> VisitorId | None:
    """Return the visitor saved for the first known key, or None if all keys are unknown."""
    c = provider_customers.c
    rows = db.execute(select(c.key, c.visitor_id).where(c.scope_id == scope_id, c.key.in_(keys)))
    visitors = {row.key: row.visitor_id for row in rows}
    return next((VisitorId(visitors[key]) for key in keys if key in visitors), None)


def save_customer(
    db: Connection,
    scope_id: ScopeId,
    keys: Sequence[bytes],
    visitor_id: VisitorId,
    occurred_at_ms: int,
) -> None:
    """Save a customer's visitor unless a newer event has already saved one.

    Writes in key order to prevent deadlocks between nodes.
    """
    for key in sorted(keys):
        db.execute(
            _UPSERT_CUSTOMER,
            {
                "scope_id": scope_id,
                "key": key,
                "visitor_id": visitor_id,
                "occurred_at": occurred_at_ms,
            },
        )
