"""Delivers messages to their channels.

Each channel gets its messages in order, and a channel that does not answer delays only itself.
"""

import smtplib
from dataclasses import replace
from functools import partial

import structlog

from penstock.accounts.mail.service import Mailer
from penstock.accounts.workspace.service import WorkspaceService
from penstock.alerts import store
from penstock.alerts.model import (
    ChannelKind,
    Delivery,
    DeliveryState,
    DueDelivery,
    Message,
    MessageKind,
)
from penstock.alerts.quiet_hours import quiet_until_ms
from penstock.alerts.rendering import as_chat, as_mail, as_webhook
from penstock.base.errors import StoreUnavailable
from penstock.base.worker import Worker
from penstock.core import Core
from penstock.metadb.secret_box import SecretBox
from penstock.outbound.model import DeliveryFailed
from penstock.outbound.sender import Outbound, signed_headers
from penstock.outbound.senders import Job, Senders

log = structlog.get_logger()

_RETRY_AFTER_S = (30, 300, 1_800, 7_200, 21_600, 43_200, 86_400, 86_400)
"""Pauses after failed attempts, in seconds: three days in all."""
_LEASE_MS = 120_000
_IDLE_S = 60.0
_GONE = 410


class Deliverer:
    """Sends the messages that are due."""

    def __init__(
        self,
        core: Core,
        workspaces: WorkspaceService,
        mailer: Mailer,
        outbound: Outbound,
        box: SecretBox,
    ) -> None:
        self._database, self._clock = core.database, core.clock
        self._workspaces, self._mailer = workspaces, mailer
        self._outbound, self._box = outbound, box
        self.worker = Worker("alert_messages", self._step, self._clock, first_after_s=5.0)
        self.senders = Senders(self.worker)

    def _step(self) -> float:
        """Start to send what is due. Returns the seconds until the next message is due."""
        now_ms = self._clock()
        with self._database.read() as db:
            waiting = store.waiting_deliveries(db)
        self.senders.start(
            Job(each.id, each.workspace_id, each.attempts > 0, partial(self._deliver, each.id))
            for each in waiting
            if each.due_at_ms <= now_ms
        )
        next_ms = min((each.due_at_ms for each in waiting if each.due_at_ms > now_ms), default=None)
        wait_s = _IDLE_S if next_ms is None else (next_ms - self._clock()) / 1000
        return min(_IDLE_S, max(1.0, wait_s))

    def _deliver(self, delivery_id: str) -> None:
        now_ms = self._clock()
        with self._database.write() as db:
            due = store.claim_delivery(db, delivery_id, now_ms, now_ms + _LEASE_MS)
        if due is not None:
            self._attempt(due)

    def _attempt(self, due: DueDelivery) -> None:
        delivery, now_ms = due.delivery, self._clock()
        is_test = due.stored.kind is MessageKind.TEST
        may_send_ms = quiet_until_ms(due.quiet_hours, max(now_ms, due.snoozed_until_ms or 0))
        if may_send_ms > now_ms and not is_test:
            self._save(replace(delivery, due_at_ms=may_send_ms))
            return
        try:
            problem, is_final = self._send(due, now_ms), False
        except _Refused as error:
            problem, is_final = str(error), True
        except StoreUnavailable:
            return  # The delivery is due again after the lease.
        except Exception as error:  # A message that cannot be rendered must not block the others.
            log.error("alert_not_delivered", error=type(error).__name__)
            problem, is_final = "The message could not be sent.", False
        attempts = delivery.attempts + 1
        done = replace(delivery, attempts=attempts, error=problem, due_at_ms=now_ms)
        if problem is None:
            done = replace(done, state=DeliveryState.SENT, sent_at_ms=now_ms)
        elif is_final or attempts > len(_RETRY_AFTER_S):
            done = replace(done, state=DeliveryState.FAILED)
        else:
            done = replace(done, due_at_ms=now_ms + _RETRY_AFTER_S[attempts - 1] * 1000)
        self._save(done)

    def _save(self, delivery: Delivery) -> None:
        with self._database.write() as db:
            store.save_attempt(db, delivery)

    def _send(self, due: DueDelivery, now_ms: int) -> str | None:
        """Send a message. Returns why it should be tried again; None if it was received.

        Raises `_Refused` if no further attempt can succeed.
        """
        shared = self._workspaces.shared_contents(due.workspace_id)  # less than before, perhaps
        channel, message = due.channel, due.stored.message.for_sharing(shared.properties)
        if channel.kind is ChannelKind.EMAIL:
            return self._mail(due, message)
        secret = self._box.open(channel.secret or "")
        if channel.kind is ChannelKind.WEBHOOK:
            body, url = as_webhook(message), channel.target
            headers = signed_headers(secret, due.stored.id, now_ms, body)
        else:
            body, url, headers = as_chat(message), secret, dict[str, str]()
        try:
            reply = self._outbound.post(url, body, headers)
        except DeliveryFailed as error:
            return error.reason
        if reply.is_accepted:
            return None
        if reply.status == _GONE:
            raise _Refused("The address answered 410: it no longer exists.")
        return f"The address answered {reply.status}."

    def _mail(self, due: DueDelivery, message: Message) -> str | None:
        with self._database.read() as db:
            addresses = store.addresses(db, due.workspace_id, [due.channel.target])
        address = addresses.get(due.channel.target)
        if address is None or not address.is_confirmed:
            raise _Refused("Nobody in the workspace has this address any more.")
        try:
            self._mailer.send(as_mail(message, address.email))
        except (OSError, smtplib.SMTPException) as error:
            return f"The mail server did not accept the email ({type(error).__name__})."
        return None


class _Refused(Exception):
    """No further attempt can succeed."""
