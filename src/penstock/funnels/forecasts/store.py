"""SQL for the records of days, and for the latest forecast of each saved funnel."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, or_, select, text, update

from penstock.base.ids import WorkspaceId
from penstock.funnels.forecasts.model import Turn
from penstock.metadb.tables import forecast_records, funnel_forecasts, funnels

MAX_RECORDS = 300
"""Maximum number of records of a workspace. The oldest are deleted first."""

_R, _F = forecast_records.c, funnel_forecasts.c
_SAVE = text("""
    INSERT INTO forecast_records (workspace_id, question, evaluated_at, made_at, content)
    VALUES (:workspace_id, :question, :evaluated_at, :made_at, :content)
    ON CONFLICT (workspace_id, question) DO UPDATE SET
        evaluated_at = excluded.evaluated_at, made_at = excluded.made_at, content = excluded.content
""")
_ADD_TURN = text("""
    INSERT INTO funnel_forecasts (funnel_id, workspace_id, revision, due_at, attempts)
    VALUES (:funnel_id, :workspace_id, :revision, :due_at, :attempts)
    ON CONFLICT (funnel_id) DO NOTHING
""")


def find(
    db: Connection, workspace_id: WorkspaceId, question: str, evaluated_ms: range
) -> str | None:
    """Return the record of a question that was evaluated in a range of times."""
    own = (_R.workspace_id == workspace_id, _R.question == question)
    within = _R.evaluated_at.between(evaluated_ms.start, evaluated_ms.stop - 1)
    content: str | None = db.execute(select(_R.content).where(*own, within)).scalar()
    return content


def save(
    db: Connection,
    workspace_id: WorkspaceId,
    question: str,
    content: str,
    *,
    evaluated_ms: int,
    written_ms: int,
    expired_ms: int,
) -> None:
    """Save a record instead of an earlier one of the same question, and delete expired ones.

    expired_ms: records made before this time are deleted.
    """
    own = _R.workspace_id == workspace_id
    others = select(_R.question).where(own, _R.question != question).order_by(_R.made_at.desc())
    oldest: Sequence[str] = db.execute(others.offset(MAX_RECORDS - 1)).scalars().all()
    db.execute(delete(forecast_records).where(_R.made_at < expired_ms))
    db.execute(delete(forecast_records).where(own, _R.question.in_(oldest)))
    row = {"workspace_id": workspace_id, "question": question, "content": content}
    times = {"evaluated_at": evaluated_ms, "made_at": written_ms}
    db.execute(_SAVE, row | times)


def take_turn(
    db: Connection, now_ms: int, lease_until_ms: int, last_workspace_id: str
) -> Turn | None:
    """Take the saved funnel whose forecast is most overdue in its workspace; None if there is none.

    last_workspace_id: the workspace of the last turn. The next one in the order of IDs is served,
    so each has its turn, however many funnels another has.

    Other nodes leave it alone until the lease ends, even if this node dies. A definition that has
    changed is due at once.
    """
    is_due = or_(_F.funnel_id.is_(None), _F.due_at <= now_ms, _F.revision != funnels.c.revision)
    columns = (funnels.c.workspace_id, funnels.c.id, funnels.c.revision)
    owner = funnels.c.workspace_id
    order = (owner <= last_workspace_id, owner, func.coalesce(_F.due_at, 0), funnels.c.id)
    row = db.execute(
        select(*columns, _F.due_at, _F.attempts, _F.revision.label("of_forecast"))
        .select_from(funnels.outerjoin(funnel_forecasts, funnels.c.id == _F.funnel_id))
        .where(is_due)
        .order_by(*order)
        .limit(1)
    ).first()
    if row is None:
        return None
    attempts = row.attempts if row.of_forecast == row.revision else 0
    values = {"revision": row.revision, "due_at": lease_until_ms, "attempts": attempts + 1}
    if row.due_at is None:
        new = {"funnel_id": row.id, "workspace_id": row.workspace_id, **values}
        is_taken = db.execute(_ADD_TURN, new).rowcount
        return Turn(row.workspace_id, row.id, row.revision, attempts) if is_taken else None
    if row.of_forecast != row.revision:
        values |= {"evaluated_at": None, "content": None}
    same = (_F.funnel_id == row.id, _F.due_at == row.due_at)
    is_taken = db.execute(update(funnel_forecasts).where(*same).values(values)).rowcount
    return Turn(row.workspace_id, row.id, row.revision, attempts) if is_taken else None


def end_turn(db: Connection, turn: Turn, **values: Any) -> None:
    """Save the values of a turn's row, unless the definition has changed since."""
    same = (_F.funnel_id == turn.funnel_id, _F.revision == turn.revision)
    db.execute(update(funnel_forecasts).where(*same).values(values))


def latest(
    db: Connection, workspace_id: WorkspaceId, evaluated_from_ms: int
) -> Mapping[tuple[str, int], str | None]:
    """Return the latest forecasts of saved funnels, by ID and revision."""
    rows = db.execute(
        select(_F.funnel_id, _F.revision, _F.content).where(
            _F.workspace_id == workspace_id, _F.evaluated_at >= evaluated_from_ms
        )
    )
    return {(row.funnel_id, row.revision): row.content for row in rows}
