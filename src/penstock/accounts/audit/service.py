"""Use cases for the audit log."""

from collections import deque
from threading import Lock

from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import store
from penstock.accounts.audit.model import Action
from penstock.accounts.audit.schema import AuditRecord
from penstock.accounts.model import Caller, Role
from penstock.base.clock import Clock
from penstock.base.errors import Forbidden
from penstock.base.paging import Listing, Page
from penstock.base.worker import Worker
from penstock.metadb.database import Database
from penstock.settings import DAY_S

_RETENTION_DAYS = 365
_CLEAN_AFTER_S, _CLEAN_EVERY_S = 60, 3600
_MAX_TARGET_CHARS = 500
_MAX_QUEUED = 10_000


def record(db: Connection, actor: Caller, action: Action, target: str, now_ms: int) -> None:
    """Add an entry in the same transaction as the action."""
    store.add_entry(db, actor, action, target[:_MAX_TARGET_CHARS], now_ms)


class AuditLog:
    """The audit logs of all workspaces. Methods block: call them from a worker thread."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._queue: deque[tuple[Caller, Action, str, int]] = deque()
        self._queue_lock = Lock()  # one writer at a time
        self._writer = Worker("audit_log", self.write_queued, clock, last_step=self.write_queued)
        cleaner = Worker(
            "audit_log_cleanup",
            self._delete_chunk,
            clock,
            period_s=_CLEAN_EVERY_S,
            first_after_s=_CLEAN_AFTER_S,
        )
        self.workers = [self._writer, cleaner]

    def record(self, actor: Caller, action: Action, target: str) -> None:
        """Add an entry for an action that does not write to the database. Call before replying."""
        with self._database.write() as db:
            record(db, actor, action, target, self._clock())

    def note(self, actor: Caller, action: Action, target: str) -> None:
        """Queue an entry. Never blocks, so that response times reveal nothing."""
        if len(self._queue) < _MAX_QUEUED:
            self._queue.append((actor, action, target, self._clock()))
        self._writer.wake()

    def write_queued(self) -> None:
        """Write the queued entries. Entries that cannot be written stay queued for the next
        call.
        """
        with self._queue_lock:
            queued = list(self._queue)
            if not queued:
                return
            with self._database.write() as db:
                for actor, action, target, at_ms in queued:
                    record(db, actor, action, target, at_ms)
            for _ in queued:
                self._queue.popleft()

    def entries(self, actor: Caller, page: Page) -> Listing[AuditRecord]:
        """List the workspace's entries, newest first.

        Raises `Forbidden` if the user is not an owner.
        """
        with self._database.read() as db:
            if actor.user_id is not None:
                role = accounts_store.role(db, actor.workspace_id, actor.user_id)
                if role is not Role.OWNER:
                    raise Forbidden(
                        "Only an owner of the workspace may read the audit log.",
                        code="owner_required",
                    )
            return store.entries(db, actor.workspace_id, page)

    def _delete_chunk(self) -> float | None:
        """Delete a chunk of entries that are older than a year.

        Returns seconds until the next chunk; None if no old entries are left.
        """
        before_ms = self._clock() - _RETENTION_DAYS * DAY_S * 1000
        with self._database.write() as db:
            return 0.0 if store.delete_old(db, before_ms) else None
