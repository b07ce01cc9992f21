"""Store when each trait of a user was stated, and the time zone of an import's local times.

The traits that are stored count as stated now, because nobody knows when they were.

Revision ID: 0039
Revises: 0037
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0037"
branch_labels = None
depends_on = None

_PAGE = 1_000
_BACKEND = 3
_LINKS = sa.table(
    "user_links",
    sa.column("scope_id", sa.Text),
    sa.column("user_id", sa.Text),
    sa.column("traits", sa.JSON),
    sa.column("traits_trust", sa.Integer),
    sa.column("trait_statements", sa.JSON),
)


def upgrade() -> None:
    op.add_column(
        "imports",
        sa.Column("timezone", sa.Text, comment="of times without an offset; unset: UTC"),
    )
    connection = op.get_bind()
    op.add_column(
        "user_links",
        sa.Column(
            "trait_statements", sa.JSON, comment="what was stated about each trait, and when"
        ),
    )
    c, now_ms = _LINKS.c, int(time.time() * 1000)
    page = (
        sa.select(c.scope_id, c.user_id, c.traits, c.traits_trust)
        .where(c.traits.is_not(sa.null()))
        .order_by(c.scope_id, c.user_id)
        .limit(_PAGE)
    )
    change = (
        sa.update(_LINKS)
        .where(c.scope_id == sa.bindparam("scope"), c.user_id == sa.bindparam("user"))
        .values(traits=sa.bindparam("current"), trait_statements=sa.bindparam("statements"))
    )
    key, after = sa.tuple_(c.scope_id, c.user_id), ("", "")
    while rows := connection.execute(page.where(key > sa.tuple_(*after))).all():
        after = rows[-1].scope_id, rows[-1].user_id
        connection.execute(
            change,
            [
                {
                    "scope": row.scope_id,
                    "user": row.user_id,
                    "current": {
                        name: value
                        for name, value in (row.traits or {}).items()
                        if value is not None
                    },
                    "statements": {
                        name: {
                            "live": [
                                _BACKEND if row.traits_trust is None else row.traits_trust,
                                now_ms,
                                value,
                            ]
                        }
                        for name, value in (row.traits or {}).items()
                    },
                }
                for row in rows
            ],
        )
    op.drop_column("user_links", "traits_trust")
    if connection.dialect.name == "postgresql":  # SQLite stores no comments.
        op.alter_column(
            "user_links",
            "traits",
            existing_type=sa.JSON(),
            existing_nullable=True,
            comment="that the user has, by name",
            existing_comment="what identify last said of the user",
        )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
