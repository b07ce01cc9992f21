"""Give the page paths of waiting and quarantined rows of events their canonical form.

The event store gets the same form in a migration of its own. A shipment that is repeated after it
must find the rows that it has stored before, by their names.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op
from msgspec import Raw, json

from penstock.base.paths import page_path

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_PAGE = 200
_FIELDS = json.Decoder(dict[str, Raw])
_TEXT = json.Decoder(str)


def upgrade() -> None:
    _respell("outbox", "lines", "target = 'events'")
    _respell("quarantine", "content", "reason = 'unshippable' AND origin = 'events'")


def _respell(name: str, column: str, condition: str) -> None:
    """Change the rows, one per line, in a column of a table. IDs may be negative."""
    table = sa.table(name, sa.column("id", sa.BigInteger), sa.column(column, sa.Text))
    id_, lines = table.c.id, table.c[column]
    connection = op.get_bind()
    page = sa.select(id_, lines).where(sa.text(condition), lines.like('%"path"%')).order_by(id_)
    change = sa.update(table).where(id_ == sa.bindparam("row")).values({column: sa.bindparam("new")})
    after = None
    while True:
        newer = page if after is None else page.where(id_ > after)
        rows = connection.execute(newer.limit(_PAGE)).all()
        for row, text in rows:
            changed = "\n".join(map(_respelled, text.split("\n")))
            if changed != text:
                connection.execute(change, {"row": row, "new": changed})
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def _respelled(line: str) -> str:
    """The row of an event with its path, and the name of a page view, in canonical form."""
    row = _FIELDS.decode(line)
    path = _TEXT.decode(row["path"]) if "path" in row else ""
    canonical = page_path(path) if path else path
    if canonical == path:
        return line
    if _TEXT.decode(row["kind"]) == "pageview" and row["name"] == row["path"]:
        row["name"] = Raw(json.encode(canonical))
    row["path"] = Raw(json.encode(canonical))
    return json.encode(row).decode()


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
