"""SQL for webhooks. Functions run in the caller's transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import json
from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    exists,
    func,
    insert,
    select,
    text,
    update,
)

from penstock.accounts.model import SigningSecret
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.rows import change_rows, insert_rows, record_of, row_values, select_rows
from penstock.metadb.tables import (
    webhook_deliveries,
    webhook_messages,
    webhook_secrets,
    webhook_units,
    webhooks,
)
from penstock.webhooks.model import (
    MAX_DELIVERIES,
    Delivery,
    KnownUnit,
    NewMessage,
    OutcomeTimes,
    WaitingMessage,
    Webhook,
)

_C, _SECRETS, _UNITS = webhooks.c, webhook_secrets.c, webhook_units.c
_MESSAGES, _DELIVERIES = webhook_messages.c, webhook_deliveries.c
_UPSERT_UNIT = text("""
    INSERT INTO webhook_units (webhook_id, unit, facts, last_at)
    VALUES (:webhook_id, :unit, :facts, :last_at)
    ON CONFLICT (webhook_id, unit) DO UPDATE
    SET facts = excluded.facts, last_at = excluded.last_at
""")
_MESSAGE_COLUMNS = ("webhook_id", "id", "scope_id", "visitor_id", "body", "created_at")


def _is_webhook(workspace_id: WorkspaceId, webhook_id: str) -> tuple[ColumnElement[bool], ...]:
    return _C.id == webhook_id, _C.workspace_id == workspace_id


# Records


def add(db: Connection, webhook: Webhook) -> None:
    values = row_values(webhook, webhooks)
    db.execute(insert(webhooks).values(values | {"events": list(webhook.events)}))


def find(
    db: Connection, workspace_id: WorkspaceId, webhook_id: str, *, lock: bool = False
) -> Webhook | None:
    wanted = select(webhooks).where(*_is_webhook(workspace_id, webhook_id))
    row = db.execute(wanted.with_for_update() if lock else wanted).first()
    return None if row is None else record_of(row, Webhook)


def page(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[Webhook]:
    """Return the webhooks of a workspace, newest first."""
    own = select(webhooks).where(_C.workspace_id == workspace_id)
    ordered = own.order_by(*newest_first(webhooks))
    return listing_of(db, ordered, page, lambda row: record_of(row, Webhook))


def change(db: Connection, webhook: Webhook, **values: Any) -> bool:
    """Set columns. Returns False if the webhook was deleted."""
    changed = update(webhooks).where(*_is_webhook(webhook.workspace_id, webhook.id))
    return db.execute(changed.values(values)).rowcount > 0


def delete_webhook(db: Connection, workspace_id: WorkspaceId, webhook_id: str) -> None:
    db.execute(delete(webhooks).where(*_is_webhook(workspace_id, webhook_id)))


# Secrets


def add_secret(db: Connection, webhook_id: str, secret: SigningSecret) -> None:
    values = row_values(secret, webhook_secrets, without={"webhook_id"})
    db.execute(insert(webhook_secrets).values(values | {"webhook_id": webhook_id}))


def secrets(db: Connection, webhook_id: str) -> list[SigningSecret]:
    """Return the secrets of a webhook, sealed, the current one first."""
    rows = db.execute(
        select(webhook_secrets)
        .where(_SECRETS.webhook_id == webhook_id)
        .order_by(_SECRETS.created_at.desc(), _SECRETS.id.desc())
    )
    return [record_of(row, SigningSecret) for row in rows]


def end_secrets(db: Connection, webhook_id: str, until_ms: int, now_ms: int) -> None:
    """Let the current secret end, and delete those that have ended."""
    own = _SECRETS.webhook_id == webhook_id
    db.execute(
        update(webhook_secrets)
        .where(own, _SECRETS.valid_until.is_(None))
        .values(valid_until=until_ms)
    )
    db.execute(delete(webhook_secrets).where(own, _SECRETS.valid_until <= now_ms))


# Making messages


def active(db: Connection) -> list[Webhook]:
    """Return the webhooks of all workspaces that are not paused."""
    rows = db.execute(select(webhooks).where(_C.paused_at.is_(None)).order_by(_C.id))
    return [record_of(row, Webhook) for row in rows]


def waiting(db: Connection, webhook_id: str) -> int:
    """Return the number of waiting messages."""
    own = select(func.count()).select_from(webhook_messages)
    return db.execute(own.where(_MESSAGES.webhook_id == webhook_id)).scalar_one()


def known_units(db: Connection, webhook_id: str, units: Sequence[int]) -> dict[int, OutcomeTimes]:
    """Return what a webhook has said about units."""
    rows = select_rows(
        db,
        webhook_units,
        ("unit", "facts"),
        {"webhook_id": webhook_id},
        "unit",
        [_signed(unit) for unit in units],
    )
    return {_unsigned(unit): json.decode(facts) for unit, facts in rows}


def advance(db: Connection, webhook: Webhook, position: str, **values: Any) -> bool:
    """Move a webhook's position, and set other columns.

    Returns False if it was paused, deleted, or moved by another node.
    """
    moved = (
        update(webhooks)
        .where(_C.id == webhook.id, _C.paused_at.is_(None), _C.position == webhook.position)
        .values(position=position, **values)
    )
    return db.execute(moved).rowcount > 0


def save_units(db: Connection, webhook_id: str, units: Iterable[KnownUnit]) -> None:
    rows = [
        {
            "webhook_id": webhook_id,
            "unit": _signed(unit.unit),
            "facts": json.encode(unit.facts).decode(),
            "last_at": unit.last_at_ms,
        }
        for unit in units
    ]
    if rows:
        db.execute(_UPSERT_UNIT, rows)


def forget_units(db: Connection, webhook_id: str, from_ms: int = 0) -> None:
    """Forget the units whose newest outcome is not older than a time."""
    db.execute(
        delete(webhook_units).where(_UNITS.webhook_id == webhook_id, _UNITS.last_at >= from_ms)
    )


def forget_old_units(db: Connection, webhook_id: str, before_ms: int, max_units: int) -> None:
    """Forget units without a newer outcome than a time, and the oldest beyond a number."""
    own = _UNITS.webhook_id == webhook_id
    newest = select(_UNITS.last_at).where(own).order_by(_UNITS.last_at.desc())
    last_ms = db.execute(newest.offset(max_units).limit(1)).scalar()
    db.execute(delete(webhook_units).where(own, _UNITS.last_at < max(before_ms, last_ms or 0)))


def add_messages(
    db: Connection, webhook_id: str, messages: Iterable[NewMessage], now_ms: int
) -> None:
    rows = [
        (
            webhook_id,
            message.id,
            message.scope_id,
            message.visitor_id,
            json.encode(message.body).decode(),
            now_ms,
        )
        for message in messages
    ]
    insert_rows(db, webhook_messages, _MESSAGE_COLUMNS, rows)


# Deliveries


def due(db: Connection, now_ms: int) -> list[Webhook]:
    """Return the webhooks with waiting messages that no node is sending now."""
    has_messages = exists().where(_MESSAGES.webhook_id == _C.id)
    rows = db.execute(
        select(webhooks).where(
            _C.paused_at.is_(None),
            _C.next_try_at <= now_ms,
            _C.leased_until <= now_ms,
            has_messages,
        )
    )
    return [record_of(row, Webhook) for row in rows]


def claim(
    db: Connection, webhook_id: str, lease: str, now_ms: int, until_ms: int
) -> Webhook | None:
    """Lease the deliveries of a webhook. Returns None if they are paused, not due or another's."""
    claimed = db.execute(
        update(webhooks)
        .where(
            _C.id == webhook_id,
            _C.paused_at.is_(None),
            _C.next_try_at <= now_ms,
            (_C.leased_until <= now_ms) | (_C.lease == lease),
        )
        .values(lease=lease, leased_until=until_ms)
        .returning(webhooks)
    ).first()
    return None if claimed is None else record_of(claimed, Webhook)


def settle(db: Connection, webhook_id: str, lease: str, **values: Any) -> bool:
    """Set columns after a delivery. Returns False if the lease has ended."""
    own = update(webhooks).where(_C.id == webhook_id, _C.lease == lease)
    return db.execute(own.values(values)).rowcount > 0


def end_leases(db: Connection) -> None:
    """End the leases of all processes."""
    db.execute(update(webhooks).where(_C.leased_until > 0).values(leased_until=0))


def batch(db: Connection, webhook_id: str, size: int) -> list[WaitingMessage]:
    """Return the messages that wait longest."""
    rows = db.execute(
        select(_MESSAGES.number, _MESSAGES.id, _MESSAGES.body, _MESSAGES.created_at)
        .where(_MESSAGES.webhook_id == webhook_id)
        .order_by(_MESSAGES.number)
        .limit(size)
    )
    return [WaitingMessage(*row) for row in rows]


def delete_until(db: Connection, webhook_id: str, number: int, before_ms: int | None = None) -> int:
    """Delete messages up to a number. before_ms: only those that are older.

    Returns how many there were.
    """
    own = [_MESSAGES.webhook_id == webhook_id, _MESSAGES.number <= number]
    if before_ms is not None:
        own.append(_MESSAGES.created_at < before_ms)
    return db.execute(delete(webhook_messages).where(*own)).rowcount


def add_delivery(db: Connection, webhook_id: str, delivery: Delivery) -> None:
    values = row_values(delivery, webhook_deliveries, without={"number", "webhook_id"})
    db.execute(insert(webhook_deliveries).values(values | {"webhook_id": webhook_id}))


def deliveries(db: Connection, webhook_id: str, page: Page) -> Listing[Delivery]:
    """Return the log of a webhook, newest first."""
    own = select(webhook_deliveries).where(_DELIVERIES.webhook_id == webhook_id)
    ordered = own.order_by(_DELIVERIES.number.desc())
    return listing_of(db, ordered, page, lambda row: record_of(row, Delivery))


def last_deliveries(db: Connection, workspace_id: WorkspaceId) -> dict[str, Delivery]:
    """Return the last delivery of each webhook of a workspace, by the webhook's ID. Without texts,
    because it is for lists.
    """
    own = select(_C.id).where(_C.workspace_id == workspace_id)
    newest = select(func.max(_DELIVERIES.number)).where(_DELIVERIES.webhook_id.in_(own))
    wanted = _DELIVERIES.number.in_(newest.group_by(_DELIVERIES.webhook_id))
    rows = db.execute(select(webhook_deliveries).where(wanted))
    return {row.webhook_id: record_of(row, Delivery)._replace(text="") for row in rows}


def forget_old_deliveries(db: Connection, webhook_id: str) -> None:
    own = _DELIVERIES.webhook_id == webhook_id
    newest = select(_DELIVERIES.number).where(own).order_by(_DELIVERIES.number.desc())
    number = db.execute(newest.offset(MAX_DELIVERIES).limit(1)).scalar()
    if number is not None:
        db.execute(delete(webhook_deliveries).where(own, _DELIVERIES.number <= number))


# People


def messages_about(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> list[Any]:
    """Return the bodies of the messages about visitors that wait."""
    rows = select_rows(
        db, webhook_messages, ("body",), {"scope_id": scope_id}, "visitor_id", visitor_ids
    )
    return [json.decode(body) for (body,) in rows]


def forget_messages(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> int:
    """Delete the messages about visitors that wait. Returns their number."""
    where = {"scope_id": scope_id}
    return change_rows(db, "DELETE FROM webhook_messages", where, "visitor_id", visitor_ids)


def _signed(unit: int) -> int:
    """Return the key of a unit as the databases can store it."""
    return unit - 2**64 if unit >= 2**63 else unit


def _unsigned(stored: int) -> int:
    return stored % 2**64
