"""SQL of the changes of stored outcomes in the metadata DB."""

from sqlalchemy import ColumnElement, Connection, select, text, update

from penstock.funnels.outcomes.model import RowChange
from penstock.metadb.tables import outcome_claims

c = outcome_claims.c
_FIELDS = (c.outcome, c.number, c.is_open, c.build, c.opened_at, c.read_until, c.dropped_until)

_OPEN = text("""
    INSERT INTO outcome_claims
        (outcome, number, is_open, build, opened_at, read_until, dropped_until)
    VALUES (:outcome, :number, TRUE, :build, :opened_at, :read_until, 0)
    ON CONFLICT (outcome) DO UPDATE SET
        number = excluded.number, is_open = TRUE, build = excluded.build,
        opened_at = excluded.opened_at, read_until = excluded.read_until
    WHERE outcome_claims.number = :seen
    RETURNING number
""")
_DROP = text("""
    INSERT INTO outcome_claims
        (outcome, number, is_open, build, opened_at, read_until, dropped_until)
    VALUES (:outcome, 0, FALSE, '', 0, 0, :dropped_until)
    ON CONFLICT (outcome) DO UPDATE SET dropped_until = excluded.dropped_until
""")


def find(db: Connection, outcome: str) -> RowChange:
    row = db.execute(select(*_FIELDS).where(c.outcome == outcome)).first()
    return RowChange(outcome) if row is None else RowChange(*row)


def open_change(db: Connection, seen: RowChange, opened: RowChange) -> bool:
    """A change begins. False when another one has begun since `seen`."""
    parameters = {**opened._asdict(), "seen": seen.number}
    parameters["opened_at"] = parameters.pop("opened_at_ms")
    parameters["read_until"] = parameters.pop("read_until_ms")
    return db.execute(_OPEN, parameters).first() is not None


def close_change(db: Connection, change: RowChange) -> bool:
    """The change has ended. False when another one has begun."""
    closed = db.execute(
        update(outcome_claims)
        .where(*_is(change))
        .values(is_open=False, build="")
        .returning(c.number)
    )
    return closed.first() is not None


def drop_until(db: Connection, outcome: str, until_ms: int) -> None:
    """Nobody builds it until then."""
    db.execute(_DROP, {"outcome": outcome, "dropped_until": until_ms})


def builds(db: Connection) -> list[RowChange]:
    """The changes whose builds have not ended, of nodes that died too."""
    return [RowChange(*row) for row in db.execute(select(*_FIELDS).where(c.build != ""))]


def _is(change: RowChange) -> tuple[ColumnElement[bool], ...]:
    return c.outcome == change.outcome, c.number == change.number
