"""SQL for the last change of each outcome's rows, and for requests to drop them."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete, select, text, update

from penstock.funnels.outcomes.model import Overtaken, RowChange
from penstock.metadb.tables import outcome_claims

c = outcome_claims.c
_FIELDS = (c.outcome, c.number, c.is_open, c.build, c.opened_at, c.read_until, c.dropped_until)
_ADD = text("""
    INSERT INTO outcome_claims
        (outcome, number, is_open, build, opened_at, read_until, dropped_until)
    VALUES (:outcome, 0, FALSE, '', 0, 0, 0)
    ON CONFLICT (outcome) DO NOTHING
""")


def last(db: Connection, outcome: str) -> RowChange:
    """Return the last change of an outcome, or an empty change if there was none."""
    row = db.execute(select(*_FIELDS).where(c.outcome == outcome)).first()
    return RowChange(outcome) if row is None else RowChange(*row)


def with_builds(db: Connection) -> list[RowChange]:
    """Return the changes whose builds have not ended, including those of nodes that died."""
    return [RowChange(*row) for row in db.execute(select(*_FIELDS).where(c.build != ""))]


def open_change(db: Connection, last: RowChange, opened: RowChange) -> None:
    """Record that a change begins. Raises `Overtaken` if `last` is no longer the last one."""
    if last.number == 0:
        db.execute(_ADD, {"outcome": last.outcome})
    _replace(
        db,
        last,
        number=opened.number,
        is_open=True,
        build=opened.build,
        opened_at=opened.opened_at_ms,
        read_until=opened.read_until_ms,
    )


def close_change(db: Connection, change: RowChange) -> None:
    """Record that a change has ended. Raises `Overtaken` if it is no longer the last one."""
    _replace(db, change, is_open=False, build="")


def drop_until(db: Connection, outcome: str, until_ms: int) -> None:
    """Keep all nodes from building the outcome until this time."""
    db.execute(_ADD, {"outcome": outcome})
    db.execute(update(outcome_claims).where(c.outcome == outcome).values(dropped_until=until_ms))


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


def _replace(db: Connection, last: RowChange, **values: Any) -> None:
    """Replace the record of a change. Raises `Overtaken` if it is no longer the last one."""
    is_last = (c.outcome == last.outcome, c.number == last.number)
    replaced = db.execute(update(outcome_claims).where(*is_last).values(values).returning(c.number))
    if replaced.first() is None:
        raise Overtaken
