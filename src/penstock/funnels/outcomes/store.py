"""Reads and writes the changes of stored outcomes in the metadata DB."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, delete, select, text, update

from penstock.funnels.outcomes.model import RowChange
from penstock.metadb.tables import outcome_claims

c = outcome_claims.c
_FIELDS = (c.outcome, c.number, c.is_open, c.build, c.opened_at, c.read_until, c.dropped_until)

_OPEN_FIRST = text("""
    INSERT INTO outcome_claims
        (outcome, number, is_open, build, opened_at, read_until, dropped_until)
    VALUES (:outcome, :number, TRUE, :build, :opened_at, :read_until, 0)
    ON CONFLICT (outcome) DO UPDATE SET
        number = excluded.number, is_open = TRUE, build = excluded.build,
        opened_at = excluded.opened_at, read_until = excluded.read_until
    WHERE outcome_claims.number = 0
    RETURNING number
""")
_DROP = text("""
    INSERT INTO outcome_claims
        (outcome, number, is_open, build, opened_at, read_until, dropped_until)
    VALUES (:outcome, 0, FALSE, '', 0, 0, :dropped_until)
    ON CONFLICT (outcome) DO UPDATE SET dropped_until = excluded.dropped_until
""")


def find(db: Connection, outcome: str) -> RowChange:
    """Return the last change of an outcome, or an empty change if there was none."""
    row = db.execute(select(*_FIELDS).where(c.outcome == outcome)).first()
    return RowChange(outcome) if row is None else RowChange(*row)


def open_change(db: Connection, seen: RowChange, opened: RowChange) -> bool:
    """Record that a change begins. Returns False if `seen` is no longer the last change."""
    values = {
        "number": opened.number,
        "build": opened.build,
        "opened_at": opened.opened_at_ms,
        "read_until": opened.read_until_ms,
    }
    if seen.number == 0:
        result = db.execute(_OPEN_FIRST, {"outcome": opened.outcome, **values})
    else:
        again = update(outcome_claims).where(*_is(seen)).values(is_open=True, **values)
        result = db.execute(again.returning(c.number))
    return result.first() is not None


def close_change(db: Connection, change: RowChange) -> bool:
    """Record that the change has ended. Returns False if it is no longer the last change."""
    closed = db.execute(
        update(outcome_claims)
        .where(*_is(change))
        .values(is_open=False, build="")
        .returning(c.number)
    )
    return closed.first() is not None


def drop_until(db: Connection, outcome: str, until_ms: int) -> None:
    """Keep all nodes from building the outcome until this time."""
    db.execute(_DROP, {"outcome": outcome, "dropped_until": until_ms})


def forget(db: Connection, before_ms: int, now_ms: int, with_rows: Collection[str]) -> None:
    """Delete changes that were opened before `before_ms` and have no running build.

    Keeps the changes of outcomes that have rows or must not be built now.
    """
    db.execute(
        delete(outcome_claims).where(
            c.opened_at < before_ms,
            c.build == "",
            c.dropped_until < now_ms,
            c.outcome.not_in(with_rows),
        )
    )


def builds(db: Connection) -> list[RowChange]:
    """Return the changes whose builds have not ended, including those of nodes that died."""
    return [RowChange(*row) for row in db.execute(select(*_FIELDS).where(c.build != ""))]


def _is(change: RowChange) -> tuple[ColumnElement[bool], ...]:
    return c.outcome == change.outcome, c.number == change.number
