"""SQL for alerts. Each function runs in the transaction of its connection."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any, get_type_hints

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from penstock.alerts.model import (
    Address,
    Alert,
    Channel,
    ChannelKind,
    Delivery,
    DeliveryState,
    DueDelivery,
    Finding,
    Message,
    MessageKind,
    StoredMessage,
    Verdict,
    WaitingDelivery,
)
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import (
    alert_channels,
    alert_deliveries,
    alert_findings,
    alert_messages,
    alerts,
    memberships,
    users,
)

_A, _C, _F = alerts.c, alert_channels.c, alert_findings.c
_M, _D = alert_messages.c, alert_deliveries.c


def claim_due(
    db: Connection, now_ms: int, lease_until_ms: int, last_workspace_id: str
) -> Alert | None:
    """Take the alert whose check is most overdue in its workspace, and move its next check ahead,
    so that no other node checks it meanwhile. Returns None if none is due, or another node was
    faster.

    last_workspace_id: the workspace of the last check. The next one in the order of IDs is served,
    so each has its turn, however many alerts another has.
    """
    due = (_A.due_at <= now_ms, ~_A.is_paused)
    turn = (_A.workspace_id <= last_workspace_id, _A.workspace_id, _A.due_at)
    row = db.execute(select(alerts).where(*due).order_by(*turn).limit(1)).first()
    if row is None:
        return None
    taken = update(alerts).where(_A.id == row.id, _A.due_at == row.due_at)
    if not db.execute(taken.values(due_at=lease_until_ms)).rowcount:
        return None
    return alert_of(row._mapping)


def next_due_ms(db: Connection) -> int | None:
    """Return when the next check of all alerts is due."""
    return db.execute(select(func.min(_A.due_at)).where(~_A.is_paused)).scalar()


def set_alert(db: Connection, alert_id: str, **changed: object) -> None:
    db.execute(update(alerts).where(_A.id == alert_id).values(changed))


def hold_claimed(db: Connection, alert: Alert, lease_until_ms: int) -> bool:
    """Lock an alert until the transaction ends. Returns False if it was changed or deleted since it
    was claimed, or another node has claimed it.
    """
    own = (_A.id == alert.id, _A.due_at == lease_until_ms, _A.updated_at == alert.updated_at_ms)
    return db.execute(select(_A.id).where(*own).with_for_update()).first() is not None


def alert_of(row: Mapping[Any, Any]) -> Alert:
    """Return the alert of a row."""
    values = {field: row[field.removesuffix("_ms")] for field in get_type_hints(Alert)}
    return Alert(**{**values, "verdict": Verdict(row["verdict"])})


def channels(db: Connection, alert_ids: Collection[str]) -> dict[str, list[Channel]]:
    """Return the channels of alerts, by the ID of their alert, in the order of their creation."""
    channels_by_alert: dict[str, list[Channel]] = {alert_id: [] for alert_id in alert_ids}
    rows = db.execute(
        select(_C.alert_id, _C.id, _C.kind, _C.target, _C.secret)
        .where(_C.alert_id.in_(alert_ids))
        .order_by(_C.id)
    )
    for alert_id, channel_id, kind, target, secret in rows:
        channels_by_alert[alert_id].append(Channel(channel_id, ChannelKind(kind), target, secret))
    return channels_by_alert


def add_channels(
    db: Connection, workspace_id: WorkspaceId, alert_id: str, new: Iterable[Channel]
) -> None:
    owner = {"workspace_id": workspace_id, "alert_id": alert_id}
    if rows := [{**channel._asdict(), **owner} for channel in new]:
        db.execute(insert(alert_channels), rows)


def remove_channels(db: Connection, alert_id: str, *, keep: Collection[str]) -> None:
    """Remove the channels of an alert, with their deliveries, except those to keep."""
    db.execute(delete(alert_channels).where(_C.alert_id == alert_id, _C.id.not_in(keep)))


def addresses(
    db: Connection, workspace_id: WorkspaceId, user_ids: Collection[str]
) -> Mapping[str, Address]:
    """Return the addresses of those users who are members, by user ID."""
    rows = db.execute(
        select(users.c.id, users.c.email, users.c.email_confirmed_at)
        .join(memberships, memberships.c.user_id == users.c.id)
        .where(memberships.c.workspace_id == workspace_id, users.c.id.in_(user_ids))
    )
    return {row.id: Address(row.email, row.email_confirmed_at is not None) for row in rows}


def findings(db: Connection, alert_id: str, from_ms: int) -> list[Finding]:
    """Return the findings of an alert about periods from a time on, by period."""
    rows = db.execute(
        select(alert_findings)
        .where(_F.alert_id == alert_id, _F.start_at >= from_ms)
        .order_by(_F.start_at)
    )
    return [record_of(row, Finding) for row in rows]


def save_finding(db: Connection, alert_id: str, finding: Finding) -> None:
    """Save a finding, instead of an earlier one about the same period."""
    is_period = (_F.alert_id == alert_id, _F.start_at == finding.start_at_ms)
    db.execute(delete(alert_findings).where(*is_period))
    values = row_values(finding, alert_findings, without=["alert_id"])
    db.execute(insert(alert_findings).values(alert_id=alert_id, **values))


def findings_page(db: Connection, alert_id: str, page: Page) -> Listing[Finding]:
    """List the findings of an alert, newest first."""
    newest = select(alert_findings).where(_F.alert_id == alert_id).order_by(_F.start_at.desc())
    return listing_of(db, newest, page, lambda row: record_of(row, Finding))


def forget_findings(db: Connection, alert_id: str, before_ms: int | None = None) -> None:
    """Delete the findings of an alert. before_ms: only those about periods before this time."""
    statement = delete(alert_findings).where(_F.alert_id == alert_id)
    db.execute(statement if before_ms is None else statement.where(_F.start_at < before_ms))


def forget_messages(db: Connection, alert_id: str, before_ms: int) -> None:
    """Delete the messages of an alert that are older than a time, with their deliveries."""
    db.execute(delete(alert_messages).where(_M.alert_id == alert_id, _M.created_at < before_ms))


def add_message(
    db: Connection,
    workspace_id: WorkspaceId,
    stored: StoredMessage,
    deliveries: Iterable[Delivery],
) -> None:
    values = row_values(stored, alert_messages, without=["workspace_id", "message"])
    content = asdict(stored.message)
    db.execute(insert(alert_messages).values(workspace_id=workspace_id, message=content, **values))
    if rows := [row_values(delivery, alert_deliveries) for delivery in deliveries]:
        db.execute(insert(alert_deliveries), rows)


def _stored(row: Row[*tuple[Any, ...]], message_id: str | None = None) -> StoredMessage:
    """Return the message of a row. message_id: its ID, unless that is the ID of the row."""
    message = Message(**{**row.message, "lines": tuple(row.message["lines"])})
    kind = MessageKind(row.kind)
    own_id = message_id or row.id
    return StoredMessage(own_id, row.alert_id, kind, message, row.report, row.created_at)


def message(db: Connection, workspace_id: WorkspaceId, message_id: str) -> StoredMessage | None:
    own = (_M.workspace_id == workspace_id, _M.id == message_id)
    row = db.execute(select(alert_messages).where(*own)).first()
    return None if row is None else _stored(row)


def messages_page(db: Connection, alert_id: str, page: Page) -> Listing[StoredMessage]:
    """List the messages of an alert, newest first."""
    newest = (_M.created_at.desc(), _M.id.desc())
    selected = select(alert_messages).where(_M.alert_id == alert_id).order_by(*newest)
    return listing_of(db, selected, page, _stored)


def deliveries(db: Connection, message_ids: Collection[str]) -> dict[str, list[Delivery]]:
    """Return the deliveries of messages, by message."""
    by_message: dict[str, list[Delivery]] = {message_id: [] for message_id in message_ids}
    rows = db.execute(
        select(alert_deliveries).where(_D.message_id.in_(message_ids)).order_by(_D.id)
    )
    for row in rows:
        by_message[row.message_id].append(record_of(row, Delivery))
    return by_message


def waiting_deliveries(db: Connection) -> list[WaitingDelivery]:
    """Return the oldest delivery to each channel, and its oldest test."""
    first = (
        select(func.min(_D.id).label("id"))
        .join(alert_messages, _M.id == _D.message_id)
        .where(_D.state == DeliveryState.WAITING)
        .group_by(_D.channel_id, _M.kind == MessageKind.TEST)
        .subquery()
    )
    rows = db.execute(
        select(_D.id, _M.workspace_id, _D.attempts, _D.due_at)
        .join(first, first.c.id == _D.id)
        .join(alert_messages, _M.id == _D.message_id)
    )
    return [WaitingDelivery(*row) for row in rows]


def claim_delivery(
    db: Connection, delivery_id: str, now_ms: int, lease_until_ms: int
) -> DueDelivery | None:
    """Take a delivery, and move its next attempt ahead, so that no other node tries it meanwhile.
    Returns None if it is not due.
    """
    own = (_D.id == delivery_id, _D.state == DeliveryState.WAITING, _D.due_at <= now_ms)
    taken = db.execute(update(alert_deliveries).where(*own).values(due_at=lease_until_ms))
    if not taken.rowcount:
        return None
    row = db.execute(
        select(
            alert_deliveries,
            _C.kind.label("channel_kind"), _C.target, _C.secret, _C.workspace_id,
            _A.quiet_hours, _A.snoozed_until,
            _M.alert_id, _M.kind, _M.message, _M.report, _M.created_at,
        )
        .join(alert_channels, _C.id == _D.channel_id)
        .join(alert_messages, _M.id == _D.message_id)
        .join(alerts, _A.id == _M.alert_id)
        .where(_D.id == delivery_id)
    ).one()  # fmt: skip
    return DueDelivery(
        record_of(row, Delivery),
        Channel(row.channel_id, ChannelKind(row.channel_kind), row.target, row.secret),
        row.workspace_id,
        _stored(row, row.message_id),
        row.quiet_hours,
        row.snoozed_until,
    )


def save_attempt(db: Connection, delivery: Delivery) -> None:
    """Save the result of an attempt, unless the delivery has been cancelled."""
    values = row_values(delivery, alert_deliveries)
    own = (_D.id == delivery.id, _D.state == DeliveryState.WAITING)
    db.execute(update(alert_deliveries).where(*own).values(values))


def release_deliveries(db: Connection, alert_id: str, due_at_ms: int) -> None:
    """Move the next attempt of all waiting messages of an alert to another time."""
    own = select(_M.id).where(_M.alert_id == alert_id)
    waiting = (_D.message_id.in_(own), _D.state == DeliveryState.WAITING)
    db.execute(update(alert_deliveries).where(*waiting).values(due_at=due_at_ms))


def cancel_deliveries(db: Connection, message_id: str) -> set[str]:
    """Cancel the deliveries of a message that wait for their first attempt. Returns the channels
    that may have received the message.
    """
    untried = (_D.message_id == message_id, _D.state == DeliveryState.WAITING, _D.attempts == 0)
    db.execute(update(alert_deliveries).where(*untried).values(state=DeliveryState.CANCELLED))
    others = (_D.message_id == message_id, _D.state != DeliveryState.CANCELLED)
    return set(db.execute(select(_D.channel_id).where(*others)).scalars())
