"""Use cases for shared reports: sharing, listing, revoking, and opening.

Methods block on the metadata DB unless they say otherwise: call them from a worker thread.
"""

from collections.abc import Mapping
from threading import Lock

from pydantic import ValidationError

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import hash_secret, new_token
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.worker import Worker
from penstock.funnels.queries.parameters import check_cohort
from penstock.funnels.queries.resolve import SavedFunnel, resolve_definition
from penstock.funnels.results.schema import SELECTION, ReportQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.schema import faults_of
from penstock.metadb.database import Database
from penstock.metadb.named import check_number
from penstock.metadb.record_cache import RecordCache
from penstock.metadb.tables import shares
from penstock.settings import DAY_S
from penstock.shares import store
from penstock.shares.model import DEFAULT_DAYS, MAX_SHARES, Share
from penstock.shares.schema import NewShare, NewShareRecord, ShareRecord

_CACHE_TTL_S = 2.0
_COUNT_EVERY_S = 60
_MAX_TOKEN_CHARS = 100
_FORGOTTEN_AFTER_MS = 30 * DAY_S * 1000
"""Time after which an expired share disappears from the list."""


class ShareService:
    """Shared reports of all workspaces."""

    def __init__(
        self,
        database: Database,
        funnels: FunnelService,
        websites: WebsiteService,
        clock: Clock,
        base_url: str,
    ) -> None:
        self._database, self._clock, self._base_url = database, clock, base_url
        self._funnels, self._websites = funnels, websites
        self._by_hash: RecordCache[bytes, Share] = RecordCache(database, "shares", _CACHE_TTL_S)
        self._opens: dict[str, tuple[int, int]] = {}
        self._opens_lock, self._write_lock = Lock(), Lock()
        self.worker = Worker(
            "share_opens",
            self.write_opens,
            clock,
            period_s=_COUNT_EVERY_S,
            last_step=self.write_opens,
        )

    def create(self, actor: Caller, form: NewShare) -> NewShareRecord:
        """Share a report. Returns it with its address, which cannot be read again.

        Raises NotFound for an unknown funnel, Invalid for parameters that a report does not have
        and an expiry in the past, Conflict if the workspace has too many shares, and the same
        errors as `resolve_definition` if the parameters do not fit the funnel.
        """
        now_ms, token = self._clock(), new_token()
        expires_at_ms = form.expires_at
        if "expires_at" not in form.model_fields_set:
            expires_at_ms = now_ms + DEFAULT_DAYS * DAY_S * 1000
        if expires_at_ms is not None and expires_at_ms <= now_ms:
            raise Invalid([Fault("expiresAt", "in_the_past", "Must be in the future.")])
        workspace_id = actor.workspace_id
        funnel = self._funnels.get(workspace_id, form.funnel_id)
        self._check(workspace_id, funnel.id, form.parameters)
        columns = {
            "id": new_id("shr", now_ms),
            "funnel_id": funnel.id,
            "name": form.name or funnel.name,
            "parameters": form.parameters,
            "created_at": now_ms,
            "created_by": actor.name,
            "expires_at": expires_at_ms,
            "opens": 0,
        }
        with self._database.write() as db:
            store.remove_expired(db, workspace_id, now_ms - _FORGOTTEN_AFTER_MS)
            nouns = "shared reports"
            check_number(db, shares, workspace_id, MAX_SHARES, nouns, code="too_many_shares")
            hidden = {"workspace_id": workspace_id, "token_hash": hash_secret(token)}
            store.add(db, columns | hidden)
            target = f"{columns['id']} {columns['name']}"
            audit.record(db, actor, Action.SHARE_CREATED, target, now_ms)
        url = f"{self._base_url}/s/{token}"
        return NewShareRecord(**columns, last_opened_at=None, url=url)

    def _check(
        self, workspace_id: WorkspaceId, funnel_id: str, parameters: Mapping[str, str]
    ) -> None:
        """Check that the parameters select something of the funnel that can be shared."""
        faults = [
            Fault(f"parameters.{name}", "unknown_field", _REFUSED.get(name, _UNKNOWN))
            for name in parameters
            if name not in SELECTION or name in _REFUSED
        ]
        if faults:
            raise Invalid(faults)
        query = read_selection(parameters)
        if query.period_error is not None:
            raise Invalid([Fault("parameters.end", "ends_before_start", query.period_error)])
        self._websites.select_websites(workspace_id, query.website_id)
        funnel = resolve_definition(
            self._funnels, workspace_id, SavedFunnel(funnel_id, None), query.ad_hoc
        )
        check_cohort(funnel.definition, query.cohort or {})

    def page(
        self, workspace_id: WorkspaceId, page: Page, funnel_id: str | None = None
    ) -> Listing[ShareRecord]:
        """List shares, newest first. funnel_id: only those of this funnel."""
        with self._database.read() as db:
            return store.page_of_shares(db, workspace_id, page, funnel_id)

    def revoke(self, actor: Caller, share_id: str) -> None:
        """Delete a share, whose address then no longer works."""
        with self._database.write() as db:
            removed = store.remove(db, actor.workspace_id, share_id)
            if removed is None:
                raise NotFound("There is no such shared report in this workspace.")
            name, token_hash = removed
            audit.record(db, actor, Action.SHARE_REVOKED, f"{share_id} {name}", self._clock())
            self._by_hash.announce(db)
        self._by_hash.forget(token_hash)

    async def find(self, token: str) -> Share:
        """Return the share that a token opens. Does not block the event loop.

        It is found by the hash of the token, so timing does not reveal a part of a token. Raises
        NotFound for an unknown, expired or revoked token.
        """
        if len(token) <= _MAX_TOKEN_CHARS:
            token_hash = hash_secret(token)

            def read_share() -> Share | None:
                with self._database.read() as db:
                    return store.share_of_token(db, token_hash)

            share = await self._by_hash.fetch(token_hash, read_share)
            if share is not None and share.is_open(self._clock()):
                return share
        raise not_shared()

    def count_open(self, share: Share) -> None:
        """Count that a share was opened. Never blocks on the database."""
        with self._opens_lock:
            count, _ = self._opens.get(share.id, (0, 0))
            self._opens[share.id] = (count + 1, self._clock())

    def write_opens(self) -> None:
        """Store the counts. Counts that cannot be written are kept for the next call."""
        with self._write_lock:
            with self._opens_lock:
                pending, self._opens = self._opens, {}
            if not pending:
                return
            try:
                with self._database.write() as db:
                    store.count_opens(db, pending)
            except BaseException:
                with self._opens_lock:
                    for share_id, (count, at_ms) in pending.items():
                        later, later_ms = self._opens.get(share_id, (0, 0))
                        self._opens[share_id] = (count + later, max(at_ms, later_ms))
                raise


def not_shared() -> NotFound:
    """Return the one error for every address that opens no report."""
    return NotFound(
        "This link does not work: it is wrong, has expired or was revoked. Ask the person who sent "
        "it to you for a new one.",
        code="share_not_found",
    )


_UNKNOWN = "A shared report has no such parameter. Leave it out."
_REFUSED = {"revision": "A shared report follows the saved funnel. Leave the revision out."}


def read_selection(parameters: Mapping[str, str]) -> ReportQuery:
    """Parse the parameters of a share. Raises Invalid if they are not those of a report."""
    try:
        return ReportQuery.model_validate(parameters)
    except ValidationError as error:
        raise Invalid(faults_of(error, "parameters", ReportQuery)) from None
