"""The SQL of providers. Each function works inside the transaction of the connection that it is given."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.sql.elements import ColumnElement

from penstock.accounts.model import Website
from penstock.base.ids import ScopeId, VisitorId
from penstock.metadb.tables import provider_customers, provider_secrets
from penstock.providers.model import Provider, SigningSecret

_IDS_AT_ONCE = 500

_COLUMNS = (
    provider_secrets.c.id,
    provider_secrets.c.secret,
    provider_secrets.c.created_at,
    provider_secrets.c.valid_until,
    provider_secrets.c.provider,
)

# The same words on SQLite and PostgreSQL. Of a visitor that a deletion took away meanwhile, nothing is remembered.
# An event that comes late does not undo what a newer one said.
_REMEMBER = text("""
    INSERT INTO provider_customers (scope_id, key, visitor_id, occurred_at)
    SELECT :scope_id, :key, visitor_id, :occurred_at FROM visitors WHERE scope_id = :scope_id AND visitor_id = :visitor_id
    ON CONFLICT (scope_id, key) DO UPDATE SET visitor_id = excluded.visitor_id, occurred_at = excluded.occurred_at
    WHERE provider_customers.occurred_at <= excluded.occurred_at
""")


def forget_customers(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> None:
    """Forget whose customers some visitors are; they are being deleted."""
    for start in range(0, len(visitor_ids), _IDS_AT_ONCE):
        some = provider_customers.c.visitor_id.in_(visitor_ids[start : start + _IDS_AT_ONCE])
        db.execute(delete(provider_customers).where(provider_customers.c.scope_id == scope_id, some))


def _of(website: Website, provider: Provider | None = None) -> ColumnElement[bool]:
    mine = (provider_secrets.c.workspace_id == website.workspace_id) & (provider_secrets.c.website_id == website.id)
    return mine if provider is None else mine & (provider_secrets.c.provider == provider.value)


def secrets(db: Connection, website: Website) -> list[tuple[Provider, SigningSecret]]:
    """All of a website, also those that have run out; the current one of a provider first, then newest first."""
    order = (provider_secrets.c.provider, provider_secrets.c.valid_until.is_not(None), provider_secrets.c.created_at.desc())
    rows = db.execute(select(*_COLUMNS).where(_of(website)).order_by(*order, provider_secrets.c.id.desc()))
    return [
        (Provider(row.provider), SigningSecret(id=row.id, secret=row.secret, created_at_ms=row.created_at, valid_until_ms=row.valid_until))
        for row in rows
    ]


def add_secret(db: Connection, website: Website, provider: Provider, new: SigningSecret) -> None:
    db.execute(
        insert(provider_secrets).values(
            id=new.id,
            workspace_id=website.workspace_id,
            website_id=website.id,
            provider=provider.value,
            secret=new.secret,
            created_at=new.created_at_ms,
            valid_until=new.valid_until_ms,
        )
    )


def set_end(db: Connection, website: Website, provider: Provider, secret_id: str, valid_until_ms: int | None) -> None:
    mine = _of(website, provider) & (provider_secrets.c.id == secret_id)
    db.execute(update(provider_secrets).where(mine).values(valid_until=valid_until_ms))


def drop_ended(db: Connection, website: Website, now_ms: int) -> None:
    """Delete the secrets that have run out."""
    db.execute(delete(provider_secrets).where(_of(website), provider_secrets.c.valid_until <= now_ms))


def remove(db: Connection, website: Website, provider: Provider) -> bool:
    """Delete all secrets of a provider. Whether there were any."""
    return db.execute(delete(provider_secrets).where(_of(website, provider))).rowcount > 0


def customer(db: Connection, scope_id: ScopeId, keys: Sequence[bytes]) -> VisitorId | None:
    """Who a customer is, by the first of the keys that is known."""
    mine = (provider_customers.c.scope_id == scope_id) & provider_customers.c.key.in_(keys)
    known = {row.key: row.visitor_id for row in db.execute(select(provider_customers.c.key, provider_customers.c.visitor_id).where(mine))}
    return next((VisitorId(known[key]) for key in keys if key in known), None)


def remember_customer(db: Connection, scope_id: ScopeId, keys: Sequence[bytes], visitor_id: VisitorId, occurred_at_ms: int) -> None:
    """Write down who a customer is, unless a newer event said it already. In the order of the keys: no two nodes lock each other out."""
    for key in sorted(keys):
        db.execute(_REMEMBER, {"scope_id": scope_id, "key": key, "visitor_id": visitor_id, "occurred_at": occurred_at_ms})
