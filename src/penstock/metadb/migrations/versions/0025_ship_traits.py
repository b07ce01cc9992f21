"""Ship the traits of users to the event store, where funnels read them.

The number of a bundle in the outbox is the version of its rows, as for the bundles that
`penstock.events.store` adds later.

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op
from msgspec import json

from penstock.base.scalar import scalar_texts

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_PAGE = 100
_LINKS = sa.table(
    "user_links",
    sa.column("scope_id", sa.Text),
    sa.column("user_id", sa.Text),
    sa.column("visitor_id", sa.Text),
    sa.column("traits", sa.JSON),
)
_OUTBOX = sa.table(
    "outbox",
    sa.column("id", sa.BigInteger),
    sa.column("target", sa.Text),
    sa.column("lines", sa.Text),
    sa.column("put_at", sa.BigInteger),
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":  # SQLite stores no comments.
        op.alter_column(
            "outbox",
            "target",
            existing_type=sa.Text(),
            existing_nullable=False,
            comment="the warehouse table: events, visitor_aliases, visitor_traits or clicks",
            existing_comment="the warehouse table: events, visitor_aliases or clicks",
        )
    c, key = _LINKS.c, sa.tuple_(_LINKS.c.scope_id, _LINKS.c.user_id)
    page = sa.select(_LINKS).where(c.traits.is_not(sa.null())).order_by(c.scope_id, c.user_id)
    after = ("", "")
    while rows := connection.execute(page.where(key > sa.tuple_(*after)).limit(_PAGE)).all():
        after = rows[-1].scope_id, rows[-1].user_id
        number = connection.execute(
            sa.insert(_OUTBOX)
            .values(target="visitor_traits", lines="", put_at=None)
            .returning(_OUTBOX.c.id)
        ).scalar_one()
        lines = "\n".join(
            json.encode(
                {
                    "scope_id": row.scope_id,
                    "visitor_id": row.visitor_id,
                    "texts": scalar_texts(row.traits or {}),
                    "version": number,
                }
            ).decode()
            for row in rows
        )
        connection.execute(
            sa.update(_OUTBOX).where(_OUTBOX.c.id == number).values(lines=lines)
        )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
