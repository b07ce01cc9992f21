"""SQL for the records of days, and for the latest forecast of each saved funnel."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from penstock.base.ids import WorkspaceId
from penstock.metadb.tables import forecast_records

MAX_RECORDS = 300
"""Maximum number of records of a workspace. The oldest are deleted first."""

_R = forecast_records.c


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
    db.execute(delete(forecast_records).where(own, _R.question.in_([question, *oldest])))
    row = {"workspace_id": workspace_id, "question": question, "content": content}
    times = {"evaluated_at": evaluated_ms, "made_at": written_ms}
    db.execute(insert(forecast_records).values(**row, **times))
