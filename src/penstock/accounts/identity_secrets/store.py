"""SQL for identity secrets. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, insert, select, update

from penstock.accounts.model import SigningSecret, Website
from penstock.metadb.rows import row_values
from penstock.metadb.tables import identity_secrets


def secrets(db: Connection, website_id: str) -> list[SigningSecret]:
    """Return all secrets of a website, sealed, newest first."""
    c = identity_secrets.c
    rows = db.execute(
        select(c.id, c.secret, c.created_at, c.valid_until)
        .where(c.website_id == website_id)
        .order_by(c.created_at.desc(), c.id.desc())
    )
    return [SigningSecret(*row) for row in rows]


def add_secret(db: Connection, website: Website, secret: SigningSecret) -> None:
    keys = {"workspace_id": website.workspace_id, "website_id": website.id}
    values = row_values(secret, identity_secrets, without=keys)
    db.execute(insert(identity_secrets).values(values | keys))


def end_current(db: Connection, website: Website, valid_until_ms: int) -> None:
    """Set an expiry time for the website's current secret."""
    c = identity_secrets.c
    db.execute(
        update(identity_secrets)
        .where(c.website_id == website.id, c.valid_until.is_(None))
        .values(valid_until=valid_until_ms)
    )


def delete_expired(db: Connection, website: Website, now_ms: int) -> None:
    c = identity_secrets.c
    db.execute(delete(identity_secrets).where(c.website_id == website.id, c.valid_until <= now_ms))


def delete_all(db: Connection, website: Website) -> None:
    db.execute(delete(identity_secrets).where(identity_secrets.c.website_id == website.id))
