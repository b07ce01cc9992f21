"""Use cases for identity secrets.

Methods block on the metadata DB unless they say otherwise: call them from a worker thread.
"""

import hmac
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import new_token
from penstock.accounts.identity_secrets import store
from penstock.accounts.identity_secrets.model import user_hash
from penstock.accounts.model import Caller, SigningSecret
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.ids import WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache
from penstock.metadb.secret_box import SecretBox
from penstock.settings import DAY_S

IsSigned = Callable[[str, str], bool]
"""A function that takes a user ID and a signature, and returns whether the signature is valid."""

_CACHE_TTL_S = 2.0
_PREVIOUS_VALID_MS = DAY_S * 1000


class IdentitySecretService:
    """Secrets that a backend uses to sign user IDs for one website."""

    def __init__(
        self, database: Database, websites: WebsiteService, box: SecretBox, clock: Clock
    ) -> None:
        self._database, self._websites = database, websites
        self._box, self._clock = box, clock
        self._cache: RecordCache[str, tuple[SigningSecret, ...]] = RecordCache(
            database, "identity_secrets", _CACHE_TTL_S
        )

    def create(self, actor: Caller, website_id: str) -> SigningSecret:
        """Create a secret, which cannot be read again. Earlier secrets stay valid for a day."""
        website, now_ms = self._websites.website(actor.workspace_id, website_id), self._clock()
        secret = SigningSecret(new_id("ids", now_ms), "idsec_" + new_token(), now_ms)
        with self._database.write() as db:
            store.delete_expired(db, website, now_ms)
            store.end_current(db, website, now_ms + _PREVIOUS_VALID_MS)
            store.add_secret(db, website, replace(secret, secret=self._box.seal(secret.secret)))
            audit.record(
                db, actor, Action.IDENTITY_SECRET_CREATED, f"{secret.id} {website.id}", now_ms
            )
            self._cache.announce(db)
        self._cache.forget(website.id)
        return secret

    def secrets(
        self, workspace_id: WorkspaceId, website_id: str, page: Page
    ) -> Listing[SigningSecret]:
        """List the valid secrets of a website, sealed, newest first."""
        website = self._websites.website(workspace_id, website_id)
        with self._database.read() as db:
            stored = store.secrets(db, website.id)
        valid = [secret for secret in stored if secret.is_valid(self._clock())]
        return Listing(valid[page.offset : page.offset + page.size], page, len(valid))

    def delete(self, actor: Caller, website_id: str) -> None:
        """Delete all secrets of a website, which makes all signatures invalid."""
        website = self._websites.website(actor.workspace_id, website_id)
        with self._database.write() as db:
            store.delete_all(db, website)
            audit.record(db, actor, Action.IDENTITY_SECRETS_DELETED, website.id, self._clock())
            self._cache.announce(db)
        self._cache.forget(website.id)

    async def is_signed(self, website_id: WebsiteId, user_id: str, sent_hash: str) -> bool:
        """Whether a valid secret of the website signed the user ID. Does not block."""
        return (await self.verifier(website_id))(user_id, sent_hash)

    async def verifier(self, website_id: WebsiteId) -> IsSigned:
        """Return the function that checks a website's signatures. Does not block the event loop."""
        secrets = self._cache.get(website_id)
        if secrets is None:
            secrets = await self._cache.fetch(website_id, partial(self._read, website_id)) or ()
        now_ms = self._clock()
        valid = [secret.secret for secret in secrets if secret.is_valid(now_ms)]

        def is_signed(user_id: str, sent_hash: str) -> bool:
            sent = sent_hash.lower().encode()
            expected = [user_hash(secret, user_id) for secret in valid]
            return any(hmac.compare_digest(sent, signature.encode()) for signature in expected)

        return is_signed

    def _read(self, website_id: str) -> tuple[SigningSecret, ...]:
        with self._database.read() as db:
            stored = store.secrets(db, website_id)
        return tuple(replace(secret, secret=self._box.open(secret.secret)) for secret in stored)
