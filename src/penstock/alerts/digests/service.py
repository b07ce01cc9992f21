"""Use cases for subscriptions to the weekly digest."""

from zoneinfo import ZoneInfo

from penstock.accounts.mail.service import Mailer
from penstock.accounts.model import CurrentUser
from penstock.accounts.open_sessions import require_open_session
from penstock.alerts.digests import store
from penstock.alerts.digests.model import Digest, next_slot_ms
from penstock.alerts.digests.schema import WEEKDAYS, DigestIn, DigestRecord
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Fault, Invalid, NotFound, Unavailable
from penstock.base.ids import UserAccountId, WorkspaceId
from penstock.funnels.saved.service import FunnelService
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox

_PURPOSE = "digest"
_DEFAULT_HOUR = 8


class DigestService:
    """Subscriptions of people. Methods block: call them from a worker thread."""

    def __init__(
        self,
        database: Database,
        funnels: FunnelService,
        mailer: Mailer,
        box: SecretBox,
        clock: Clock,
    ) -> None:
        self._database, self._funnels, self._mailer = database, funnels, mailer
        self._box, self._clock = box, clock

    @property
    def is_set_up(self) -> bool:
        """Whether the server can send emails."""
        return self._mailer.is_set_up

    def get(self, user: CurrentUser) -> DigestRecord:
        """Return the user's subscription in their workspace, or the defaults of a new one."""
        with self._database.read() as db:
            digest = store.find(db, user.workspace.id, user.user.id)
        if digest is None:
            return DigestRecord(
                subscribed=False,
                weekday="monday",
                hour=_DEFAULT_HOUR,
                timezone="UTC",
                funnel_ids=None,
                next_at=None,
                last_sent_at=None,
            )
        return _record(digest)

    def subscribe(self, user: CurrentUser, sent: DigestIn) -> DigestRecord:
        """Subscribe the user, or change their subscription.

        Raises Conflict if emails are not set up or the address is not confirmed, and Invalid for an
        unknown funnel.
        """
        if not self.is_set_up:
            raise Conflict("Email is not set up on this server.", code="mail_not_set_up")
        if not user.user.email_confirmed:
            raise Conflict(
                "Confirm your email address first, so that nobody else gets your digest.",
                code="email_not_confirmed",
            )
        workspace_id, ids = user.workspace.id, sent.funnel_ids
        self._check_funnels(workspace_id, ids or [])
        weekday = WEEKDAYS.index(sent.weekday) + 1
        slot_ms = next_slot_ms(weekday, sent.hour, ZoneInfo(sent.timezone), self._clock())
        with self._database.write() as db:
            require_open_session(db, user.caller)
            earlier = store.find(db, workspace_id, user.user.id)
            digest = Digest(
                workspace_id,
                user.user.id,
                weekday,
                sent.hour,
                sent.timezone,
                slot_at_ms=slot_ms,
                due_at_ms=slot_ms,
                funnel_ids=None if ids is None else tuple(dict.fromkeys(ids)),
                sent_at_ms=None if earlier is None else earlier.sent_at_ms,
            )
            store.replace(db, digest)
        return _record(digest)

    def unsubscribe(self, user: CurrentUser) -> None:
        """End the user's subscription. Does nothing if there is none."""
        with self._database.write() as db:
            require_open_session(db, user.caller)
            store.remove(db, user.workspace.id, user.user.id)

    def unsubscribe_token(self, digest: Digest) -> str:
        """Return the token of the link in an email that ends the subscription."""
        return self._box.seal_token(f"{_PURPOSE} {digest.workspace_id} {digest.user_id}")

    def unsubscribe_by(self, token: str) -> None:
        """End the subscription that a token names. Raises `NotFound` if the token is not valid."""
        workspace_id, user_id = self._read(token)
        with self._database.write() as db:
            store.remove(db, workspace_id, user_id)

    def is_valid(self, token: str) -> bool:
        """Whether a link with this token can end a subscription."""
        try:
            self._read(token)
        except NotFound:
            return False
        return True

    def _read(self, token: str) -> tuple[WorkspaceId, UserAccountId]:
        try:
            purpose, *ids = self._box.open_token(token).split()
        except (Unavailable, ValueError):
            purpose, ids = "", []
        if purpose != _PURPOSE or len(ids) != 2:
            raise NotFound("This link is not complete. Open it again from the email.")
        return WorkspaceId(ids[0]), UserAccountId(ids[1])

    def _check_funnels(self, workspace_id: WorkspaceId, funnel_ids: list[str]) -> None:
        faults = []
        for index, funnel_id in enumerate(funnel_ids):
            try:
                self._funnels.get(workspace_id, funnel_id)
            except NotFound:
                message = "This workspace has no such funnel."
                faults.append(Fault(f"funnelIds[{index}]", "unknown_funnel", message))
        if faults:
            raise Invalid(faults)


def _record(digest: Digest) -> DigestRecord:
    return DigestRecord.from_object(
        digest,
        subscribed=True,
        weekday=WEEKDAYS[digest.weekday - 1],
        next_at=digest.slot_at_ms,
        last_sent_at=digest.sent_at_ms,
    )
