"""Add the tables of event keys, which take a third of the space of the dedupe keys.

A worker moves the dedupe keys of earlier versions while the service runs.

Revision ID: 0049
Revises: 0048
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event_keys",
        sa.Column(
            "number",
            sa.BigInteger,
            nullable=False,
            comment="milliseconds of the commit, and position in it",
        ),
        sa.Column(
            "body",
            sa.BigInteger,
            comment="hash of the content; null once the visitor was deleted",
        ),
        sa.Column(
            "key_high",
            sa.BigInteger,
            nullable=False,
            autoincrement=False,
            comment="keyed hash of (website, route family, the client's ID): the first 8 bytes",
        ),
        sa.Column("key_low", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column(
            "origin", sa.Integer, nullable=False, comment="number of a row in event_origins"
        ),
        sa.Column(
            "visitor", sa.LargeBinary, comment="packed ID; null once the visitor was deleted"
        ),
        sa.Column(
            "event_id",
            sa.LargeBinary,
            comment="packed ID of an event of an earlier version; "
            "null: it follows from key and number",
        ),
        sa.PrimaryKeyConstraint("key_high", "key_low", name=op.f("pk_event_keys")),
        sqlite_with_rowid=False,
    )
    auto_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "event_origins",
        sa.Column("number", auto_id, autoincrement=True, nullable=False),
        sa.Column(
            "scope_tag",
            sa.BigInteger,
            nullable=False,
            comment="hash of the visitors' identity scope",
        ),
        sa.Column("import_id", sa.Text, comment="the import that stored the events"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_event_origins")),
    )
    op.create_index(
        "ix_event_origins_scope_tag_import_id", "event_origins", ["scope_tag", "import_id"]
    )
    op.create_table(
        "event_key_secrets",
        sa.Column(
            "id",
            sa.Integer,
            nullable=False,
            autoincrement=False,
            comment="always 1: there is one row",
        ),
        sa.Column(
            "secret", sa.Text, nullable=False, comment="sealed; keys the hashes in event_keys"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_key_secrets")),
    )
    op.add_column(
        "event_counts",
        sa.Column(
            "newest_number",
            sa.BigInteger,
            nullable=False,
            server_default="0",
            comment="of its accepted events, as in event_keys",
        ),
    )
    op.add_column(
        "deletions",
        sa.Column(
            "newest_number",
            sa.BigInteger,
            nullable=False,
            server_default="0",
            comment="the highest number in event_keys when it was asked for",
        ),
    )
    op.add_column(
        "deletions",
        sa.Column(
            "keys_up_to",
            sa.BigInteger,
            comment="event_keys are gone through up to this key_high",
        ),
    )
    # The highest number of the millisecond in which the newest key was stored.
    op.execute("""
        UPDATE event_counts SET newest_number = coalesce((
            SELECT created_at * 1048576 + 1048575 FROM dedupe_keys ORDER BY id DESC LIMIT 1
        ), 0)
    """)
    op.execute("""
        UPDATE deletions SET newest_number = coalesce((
            SELECT created_at * 1048576 + 1048575 FROM dedupe_keys
            WHERE dedupe_keys.id <= deletions.key_id ORDER BY id DESC LIMIT 1
        ), 0)
        WHERE state <> 'done'
    """)


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
