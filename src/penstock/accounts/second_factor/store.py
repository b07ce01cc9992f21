"""SQL for second factors. Each function runs in the transaction of its connection."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from penstock.accounts.second_factor.schema import SecondFactorRecord
from penstock.metadb.tables import pending_log_ins, recovery_codes, second_factors

_SPREAD = 2
"""Maximum distance, in time steps, between two codes that are valid at the same moment."""


def second_factor(db: Connection, user_id: str) -> Row[*tuple[Any, ...]] | None:
    """Return the row of the user's second factor. During setup, `confirmed_at` is None."""
    return db.execute(select(second_factors).where(second_factors.c.user_id == user_id)).first()


def is_enabled(db: Connection, user_id: str) -> bool:
    factor = second_factor(db, user_id)
    return factor is not None and factor.confirmed_at is not None


def state(db: Connection, user_id: str) -> SecondFactorRecord:
    factor = second_factor(db, user_id)
    count = select(func.count()).select_from(recovery_codes)
    left = db.scalar(count.where(recovery_codes.c.user_id == user_id))
    enabled_at_ms = factor.confirmed_at if factor else None
    return SecondFactorRecord(
        enabled=enabled_at_ms is not None, enabled_at=enabled_at_ms, recovery_codes_left=left or 0
    )


def begin(db: Connection, factor_id: str, user_id: str, secret: str, now_ms: int) -> None:
    """Store an unconfirmed secret, replacing an earlier one."""
    delete_second_factor(db, user_id)
    db.execute(
        insert(second_factors).values(
            id=factor_id, user_id=user_id, secret=secret, created_at=now_ms
        )
    )


def confirm(db: Connection, user_id: str, now_ms: int) -> None:
    """Confirm the second factor, so that logging in requires a code."""
    db.execute(
        update(second_factors)
        .where(second_factors.c.user_id == user_id)
        .values(confirmed_at=now_ms)
    )


def use_step(db: Connection, user_id: str, step: int) -> bool:
    """Mark the code of a time step as used. Returns False if it or a later code was already used.

    If the last used step is far in the future, the clock was ahead at that time. Such a step does
    not block current codes.
    """
    c = second_factors.c
    is_usable = or_(c.last_step.is_(None), c.last_step < step, c.last_step > step + _SPREAD)
    is_unused = (c.user_id == user_id, is_usable)
    return db.execute(update(second_factors).where(*is_unused).values(last_step=step)).rowcount > 0


def replace_recovery_codes(db: Connection, user_id: str, hashes: Iterable[bytes]) -> None:
    db.execute(delete(recovery_codes).where(recovery_codes.c.user_id == user_id))
    db.execute(
        insert(recovery_codes),
        [{"user_id": user_id, "code_hash": code_hash} for code_hash in hashes],
    )


def use_recovery_code(db: Connection, user_id: str, code_hash: bytes) -> bool:
    """Delete the code. Returns False if it does not exist or was already used."""
    c = recovery_codes.c
    is_code = (c.user_id == user_id, c.code_hash == code_hash)
    return db.execute(delete(recovery_codes).where(*is_code)).rowcount > 0


def delete_second_factor(db: Connection, user_id: str) -> bool:
    """Delete the factor, its recovery codes and pending log-ins. Returns False if there was no
    factor.
    """
    for table in (pending_log_ins, recovery_codes):
        db.execute(delete(table).where(table.c.user_id == user_id))
    factor = delete(second_factors).where(second_factors.c.user_id == user_id)
    return db.execute(factor).rowcount > 0
