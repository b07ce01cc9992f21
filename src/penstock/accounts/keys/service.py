"""Use cases for API keys: creating, listing, revoking, and finding a key's caller.

Methods block on the metadata DB unless they say otherwise: call them from a worker thread.
"""

from collections.abc import Iterable
from threading import Lock

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import KEY_PREFIX_CHARS, hash_secret, new_api_key
from penstock.accounts.keys import store
from penstock.accounts.keys.schema import KeyRecord, NewKey, NewKeyRecord
from penstock.accounts.model import Caller
from penstock.accounts.open_sessions import require_open_session
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Forbidden, Invalid, NotFound, Unauthorized
from penstock.base.ids import KeyId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.worker import Worker
from penstock.http.scopes import KeyScope, require_scope
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache

_CACHE_TTL_S = 2.0
_LAST_USE_EVERY_S = 60


class KeyService:
    """API keys of all workspaces."""

    def __init__(self, database: Database, websites: WebsiteService, clock: Clock) -> None:
        self._database, self._websites, self._clock = database, websites, clock
        self._callers: RecordCache[bytes, Caller] = RecordCache(database, "api_keys", _CACHE_TTL_S)
        self._used_at_ms: dict[KeyId, int] = {}
        self._last_use_lock = Lock()
        self.worker = Worker(
            "key_last_use",
            self.write_last_uses,
            clock,
            period_s=_LAST_USE_EVERY_S,
            last_step=self.write_last_uses,
        )

    async def authenticate(
        self, authorization: str | None, scope: KeyScope | None = None
    ) -> Caller:
        """Return the caller that an `Authorization` header identifies. Does not block the event
        loop.

        scope: the scope that the key must have. Raises `Unauthorized` if the header does not
        contain a valid key, and `Forbidden` if the key does not have the scope.
        """
        key = _bearer_key(authorization)
        if key is None:
            raise Unauthorized(
                "Send a workspace API key in the header Authorization: Bearer <key>.",
                code="key_required",
            )
        key_hash = hash_secret(key)

        def read_caller() -> Caller | None:
            with self._database.read() as db:
                return store.key_holder(db, key_hash, self._clock())

        caller = self._callers.get(key_hash) or await self._callers.fetch(key_hash, read_caller)
        if caller is None:
            raise Unauthorized("The API key is not valid.", code="key_not_valid")
        if caller.key_id is not None:
            self._used_at_ms[caller.key_id] = self._clock()
        if scope is not None:
            require_scope(caller.scopes, (scope,))
        return caller

    def write_last_uses(self) -> None:
        """Store when keys were last used. Uses that cannot be written are kept for the next
        call.
        """
        with self._last_use_lock:
            pending = dict(self._used_at_ms)
            if not pending:
                return
            with self._database.write() as db:
                store.update_last_uses(db, pending)
            for key_id, at_ms in pending.items():
                if self._used_at_ms.get(key_id) == at_ms:
                    del self._used_at_ms[key_id]

    def create_key(self, actor: Caller, form: NewKey) -> NewKeyRecord:
        """Create a key. Returns it with its secret, which cannot be read again.

        Raises `Invalid` if the expiry is in the past, and `Unauthorized` if the website belongs to
        another workspace.
        """
        now_ms, secret = self._clock(), new_api_key()
        if form.expires_at is not None and form.expires_at <= now_ms:
            raise Invalid([Fault("expiresAt", "in_the_past", "Must be in the future.")])
        website_id = None
        if form.website_id is not None:
            website_id = self._websites.owned_website(actor.workspace_id, form.website_id).id
        shown = {
            "id": new_id("key", now_ms),
            "name": form.name,
            "prefix": secret[:KEY_PREFIX_CHARS],
            "created_at": now_ms,
        }
        hidden = {
            "key_hash": hash_secret(secret),
            "website_id": website_id,
            "expires_at": form.expires_at,
        }
        with self._database.write() as db:
            require_open_session(db, actor)
            store.add_key(db, actor, set(form.scopes or KeyScope), shown | hidden)
            audit.record(db, actor, Action.KEY_CREATED, f"{shown['id']} {form.name}", now_ms)
        return NewKeyRecord(**shown, key=secret)

    def counts_by_creator(self, workspace_id: WorkspaceId) -> dict[str, int]:
        """Return the number of unrevoked keys in the workspace by the creator's user ID."""
        with self._database.read() as db:
            return store.count_keys_by_creator(db, workspace_id)

    def keys(self, workspace_id: WorkspaceId, page: Page) -> Listing[KeyRecord]:
        with self._database.read() as db:
            return store.keys(db, workspace_id, page, self._used_at_ms)

    def revoke_key(self, actor: Caller, key_id: str) -> None:
        """Revoke the key. Revoking again changes nothing."""
        with self._database.write() as db:
            now_ms = self._clock()
            key_hash = store.revoke_key(db, actor.workspace_id, key_id, now_ms)
            if key_hash is None:
                raise NotFound("There is no such API key in this workspace.")
            audit.record(db, actor, Action.KEY_REVOKED, key_id, now_ms)
            self.announce(db)
        self.forget([key_hash])

    def announce(self, db: Connection) -> None:
        """Make other nodes reject the keys that this transaction revokes."""
        self._callers.announce(db)

    def forget(self, key_hashes: Iterable[bytes]) -> None:
        """Reject these revoked keys from now on."""
        for key_hash in key_hashes:
            self._callers.forget(key_hash)


def require_website_of_key(caller: Caller, website_id: WebsiteId) -> None:
    """Raise `Forbidden` if the caller is a key for another website."""
    if caller.website_id not in (None, website_id):
        raise wrong_website_of_key(caller.website_id)


def wrong_website_of_key(website_id: WebsiteId) -> Forbidden:
    return Forbidden(
        f"This API key is only for the website {website_id}. Send this ID as websiteId if the "
        "route has that parameter; otherwise use another key.",
        code="website_not_of_key",
    )


def _bearer_key(authorization: str | None) -> str | None:
    """Return the key in an `Authorization` header; None if the scheme is not Bearer."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
