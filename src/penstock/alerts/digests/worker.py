"""Sends the digests that are due, from whichever node takes them first.

A node takes a digest by moving its `due_at` ahead: other nodes leave it alone until then, even if
the node dies. When the email is ready, its slot moves to the next week before the email goes to the
mail server. So each week has at most one email: a crash in that moment loses it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from smtplib import SMTPException

import structlog

from penstock.accounts.mail.composition import compose_mail
from penstock.accounts.mail.model import Mail, MailSection
from penstock.accounts.mail.service import Mailer, is_final
from penstock.accounts.mail.smtp import UnclearResult
from penstock.accounts.workspace.service import WorkspaceService
from penstock.alerts.digests import store
from penstock.alerts.digests.model import Digest, next_slot_ms
from penstock.alerts.digests.schema import MAX_FUNNELS
from penstock.alerts.digests.sections import read_section
from penstock.alerts.digests.service import DigestService
from penstock.base.attempts import MAX_DEATHS
from penstock.base.errors import NotFound, PenstockError, StoreUnavailable
from penstock.base.paging import Page
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.saved.schema import FunnelSort
from penstock.funnels.saved.service import FunnelService
from penstock.warehouse.work import Work, working_on

log = structlog.get_logger()

_PERIOD_S = 60.0
_PER_STEP = 20
_LEASE_MS, _RETRY_MS = 1_800_000, 600_000
_MAX_LATE_MS = 86_400_000
"""A digest that could not be sent for a day is left out: the next one comes with newer figures."""


class DigestSender:
    """Composes digests and sends them."""

    def __init__(
        self,
        core: Core,
        digests: DigestService,
        funnels: FunnelService,
        runner: FunnelQueryRunner,
        limits: WorkspaceService,
        mailer: Mailer,
    ) -> None:
        self._database, self._clock, self._attempts = core.database, core.clock, core.attempts
        self._base_url = core.settings.base_url
        self._digests, self._funnels, self._runner = digests, funnels, runner
        self._limits, self._mailer = limits, mailer
        self.worker = Worker("digests", self._step, core.clock, period_s=_PERIOD_S)

    def _step(self) -> float | None:
        """Send the digests that are due, a limited number at once."""
        for _ in range(_PER_STEP):
            if not self._send_next():
                return None
        return 0.0

    def _send_next(self) -> bool:
        """Work on the digest that is most overdue. Returns False if none is."""
        now_ms = self._clock()
        with self._database.read() as db:
            due = store.first_due(db, now_ms)
        if due is None:
            return False
        held = replace(due, due_at_ms=now_ms + _LEASE_MS)
        if not self._move(due, held):
            return True  # another node was faster
        next_ms = next_slot_ms(due.weekday, due.hour, due.zone, now_ms)
        later = replace(due, slot_at_ms=next_ms, due_at_ms=next_ms)
        subject = f"digest-{due.workspace_id}-{due.user_id}"
        if now_ms - due.slot_at_ms > _MAX_LATE_MS or self._attempts.deaths(subject) >= MAX_DEATHS:
            log.warning("digest_left_out", workspace_id=due.workspace_id, user_id=due.user_id)
            self._attempts.forget(subject)
            self._move(held, later)
            return True
        try:
            with self._attempts.attempt(subject):
                mail = self._compose(due)
        except (StoreUnavailable, WorkerStopped) as error:
            wait_ms = 0 if isinstance(error, WorkerStopped) else _RETRY_MS
            with suppress(StoreUnavailable):
                self._move(held, replace(due, due_at_ms=now_ms + wait_ms))
            raise
        if mail is None:
            self._move(held, later)
            return True
        sent = replace(later, sent_at_ms=now_ms)
        if self._move(held, sent):
            self._hand_over(mail, sent, replace(due, due_at_ms=self._clock() + _RETRY_MS))
        return True

    def _hand_over(self, mail: Mail, sent: Digest, retry: Digest) -> None:
        """Give the email to the server. sent, retry: states of the digest after success and
        failure.
        """
        try:
            self._mailer.send(mail)
        except UnclearResult:  # the server may have accepted it
            log.warning("digest_unclear", user_id=sent.user_id)
        except (OSError, SMTPException) as error:
            log.warning("digest_not_sent", user_id=sent.user_id, error=type(error).__name__)
            if not is_final(error):
                self._move(sent, retry)

    def _move(self, before: Digest, after: Digest) -> bool:
        """Change the state of a digest. Returns False if it has changed in the meantime."""
        with self._database.write() as db:
            return store.move(
                db,
                before,
                slot_at=after.slot_at_ms,
                due_at=after.due_at_ms,
                sent_at=after.sent_at_ms,
            )

    def _compose(self, digest: Digest) -> Mail | None:
        """Compose the email; None if there is nothing to send, or nobody to send it to."""
        with self._database.read() as db:
            recipient = store.recipient(db, digest.workspace_id, digest.user_id)
        funnels, total = self._funnels_of(digest)
        if recipient is None or not recipient.is_confirmed or not funnels:
            return None
        limits = self._limits.engine_limits(digest.workspace_id)
        sections = []
        for funnel in funnels:
            if self.worker.is_stopping:
                raise WorkerStopped
            self.worker.report_progress()
            with working_on(Work(limits, owner=digest.workspace_id)):
                sections.append(self._section(digest, funnel))
        footer = [
            f"You subscribed to this weekly digest of {recipient.workspace}.",
            "Change it under Settings, Account.",
        ]
        if total > len(funnels):
            footer.insert(1, f"It has the first {len(funnels)} of {total} funnels.")
        token = self._digests.unsubscribe_token(digest)
        return compose_mail(
            recipient.email,
            f"Weekly digest of {recipient.workspace}",
            sections,
            footer=footer,
            unsubscribe_url=f"{self._base_url}/unsubscribe?token={token}",
        )

    def _funnels_of(self, digest: Digest) -> tuple[Sequence[FunnelRecord], int]:
        """Return the funnels of the digest, and how many it would have without a limit."""
        if digest.funnel_ids is None:
            listing = self._funnels.page(
                digest.workspace_id, Page(1, MAX_FUNNELS), sort=FunnelSort.NAME
            )
            return listing.data, listing.total
        funnels = []
        for funnel_id in digest.funnel_ids:
            with suppress(NotFound):  # it was deleted
                funnels.append(self._funnels.get(digest.workspace_id, funnel_id))
        return funnels, len(funnels)

    def _section(self, digest: Digest, funnel: FunnelRecord) -> MailSection:
        try:
            return read_section(
                self._runner,
                digest.workspace_id,
                funnel,
                digest.zone,
                self._clock(),
                base_url=self._base_url,
                shared=self._limits.shared_contents(digest.workspace_id).properties,
            )
        except StoreUnavailable:
            raise
        except PenstockError as error:
            reason = f" {error.detail}"
        except Exception as error:  # one funnel must not keep the others from people
            log.error("digest_section_failed", funnel_id=funnel.id, error=type(error).__name__)
            reason = ""
        return MailSection(
            funnel.name,
            (f"The figures are not available.{reason}",),
            link=f"{self._base_url}/funnels/{funnel.id}",
            link_text="Open the report",
        )
