"""Sends the messages of each webhook in order, one request at a time.

A webhook is leased while it is sent, so that no other node sends it. The size of a
request is saved before it is sent: if the process dies, the same request is sent again.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from penstock.accounts.workspace.model import Contents
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.metrics import counter
from penstock.base.worker import Worker
from penstock.core import Core
from penstock.metadb.secret_box import SecretBox
from penstock.outbound.model import DeliveryFailed
from penstock.outbound.sender import Outbound, signed_headers
from penstock.outbound.senders import Job, Senders
from penstock.webhooks import store
from penstock.webhooks.messages import request_of
from penstock.webhooks.model import (
    MAX_MESSAGES,
    RETRIED_MS,
    Delivery,
    WaitingMessage,
    Webhook,
)

_DELIVERIES = counter(
    "penstock_webhook_deliveries", "Requests to receivers of webhooks.", ["outcome"]
)
_PERIOD_S = 1.0
_LEASE_MS = 30_000
"""Time of a lease. A delivery takes at most ten seconds."""
_TURN_MS = 5_000
"""Time in milliseconds after which another webhook may be sent instead."""
_SLOW_MS = 2_000
"""Time of a delivery in milliseconds from which its receiver counts as slow."""
_WAITS_S = (5, 30, 120, 600, 1800, 3600, 2 * 3600, 4 * 3600)
"""Seconds from each failed delivery to the next; the last one repeats."""


class Deliverer:
    """Sends the messages of all webhooks, in a thread for each that is sent now."""

    def __init__(
        self, core: Core, outbound: Outbound, workspaces: WorkspaceService, box: SecretBox
    ) -> None:
        self._database, self._clock = core.database, core.clock
        self._outbound, self._workspaces, self._box = outbound, workspaces, box
        self.worker = Worker("webhook_deliveries", self._step, core.clock, period_s=_PERIOD_S)
        self._lease, self._has_ended_leases = new_id("lse", core.clock()), False
        self.senders = Senders(self.worker)

    def _step(self) -> None:
        if not self._has_ended_leases:
            if self._database.is_sqlite:  # Only a process that has died can have one.
                with self._database.write() as db:
                    store.end_leases(db)
            self._has_ended_leases = True
        with self._database.read() as db:
            due = store.due(db, self._clock())
        self.senders.start(
            Job(
                webhook.id,
                webhook.workspace_id,
                webhook.took_ms >= _SLOW_MS,
                partial(self._send_all, webhook.id, webhook.workspace_id),
            )
            for webhook in due
            if self._workspaces.shared_contents(webhook.workspace_id).level is Contents.UNITS
        )

    def _send_all(self, webhook_id: str, workspace_id: WorkspaceId) -> None:
        """Send messages until none wait, a delivery fails, or it is another webhook's turn.

        After an error, they are sent again when the lease has ended.
        """
        until_ms = self._clock.elapsed_ms() + _TURN_MS
        while not self.worker.is_stopping and self._clock.elapsed_ms() < until_ms:
            shared = self._workspaces.shared_contents(workspace_id)  # may have changed meanwhile
            if shared.level is not Contents.UNITS:
                break
            claimed = self._claim(webhook_id)
            if claimed is None or not self._send(*claimed, shared.properties):
                break
        with self._database.write() as db:
            store.settle(db, webhook_id, self._lease, leased_until=0)

    def _claim(self, webhook_id: str) -> tuple[Webhook, list[WaitingMessage]] | None:
        """Lease a webhook and return the messages of its next request."""
        now_ms = self._clock()
        with self._database.write() as db:
            webhook = store.claim(db, webhook_id, self._lease, now_ms, now_ms + _LEASE_MS)
            if webhook is None:
                return None
            messages = store.batch(db, webhook_id, webhook.batch or MAX_MESSAGES)
            if messages:
                store.settle(db, webhook_id, self._lease, batch=len(messages))
        return (webhook, messages) if messages else None

    def _send(
        self, webhook: Webhook, messages: Sequence[WaitingMessage], properties: Sequence[str]
    ) -> bool:
        """Send one request and save its result. Returns whether it was accepted.

        properties: those whose values may be sent.
        """
        body = request_of((message.body for message in messages), properties)
        ids = " ".join(message.id for message in messages)
        request_id = "req_" + blake2b(ids.encode(), digest_size=13).hexdigest()
        delivery = self.post(webhook, request_id, body, len(messages))
        last = messages[-1].number
        if delivery.is_accepted:
            _DELIVERIES.labels("accepted").inc()
            state: dict[str, Any] = {"failures": 0, "failing_since": None, "batch": 0}
        else:
            _DELIVERIES.labels("failed").inc()
            wait_s = _WAITS_S[min(webhook.failures, len(_WAITS_S) - 1)]
            state = {
                "failures": webhook.failures + 1,
                "failing_since": webhook.failing_since_ms or delivery.at_ms,
                "next_try_at": delivery.at_ms + wait_s * 1000,
            }
        with self._database.write() as db:
            if not store.settle(db, webhook.id, self._lease, took=delivery.took_ms, **state):
                return False  # Another node sends it now, or it was deleted.
            if delivery.is_accepted:
                store.delete_until(db, webhook.id, last)
            elif count := store.delete_until(db, webhook.id, last, delivery.at_ms - RETRIED_MS):
                store.settle(db, webhook.id, self._lease, batch=0)
                text = f"{delivery.text} Given up after three days: {count} messages."
                delivery = delivery._replace(text=text)
            store.add_delivery(db, webhook.id, delivery)
        return delivery.is_accepted

    def post(self, webhook: Webhook, request_id: str, body: bytes, messages: int) -> Delivery:
        """Send a request, signed with the valid secrets of the webhook. Blocks.

        messages: their number in the body.
        """
        now_ms, began_ms = self._clock(), self._clock.elapsed_ms()
        with self._database.read() as db:
            secrets = store.secrets(db, webhook.id)
        valid = [self._box.open(each.secret) for each in secrets if each.is_valid(now_ms)]
        headers = signed_headers(valid[0], request_id, now_ms, body, *valid[1:])
        status: int | None = None
        try:
            status, text = self._outbound.post(webhook.url, body, headers)
        except DeliveryFailed as error:
            text = error.reason
        took_ms = self._clock.elapsed_ms() - began_ms
        return Delivery(now_ms, request_id, messages, text, took_ms, status)
