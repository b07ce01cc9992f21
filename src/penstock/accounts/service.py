"""Use cases of users, sessions, API keys and websites.

Methods block on the metadata DB unless they say otherwise: call them from a worker thread.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from threading import Lock

from anyio import CapacityLimiter
from sqlalchemy import Connection

from penstock.accounts import store
from penstock.accounts.credentials import (
    KEY_PREFIX_CHARS,
    hash_secret,
    new_api_key,
    new_token,
    password_hash,
    password_matches,
)
from penstock.accounts.invitations import tokens as invitation_tokens
from penstock.accounts.model import (
    ApiKey,
    Caller,
    CurrentUser,
    MobileApp,
    Role,
    User,
    Website,
    WebsiteKind,
    Workspace,
)
from penstock.accounts.schema import APP_FIELDS, NewWebsite, SignUp, WebsiteChanges, only_mobile
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Forbidden, Invalid, NotFound, RatePolicy, Unauthorized
from penstock.base.ids import (
    KeyId,
    ScopeId,
    SessionId,
    UserAccountId,
    WebsiteId,
    WorkspaceId,
    new_id,
)
from penstock.base.paging import Listing, Page
from penstock.base.ttl_cache import TtlCache
from penstock.base.worker import Worker
from penstock.http.attempt_limiter import AttemptLimiter
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

LOG_IN_POLICY = RatePolicy("login", quota=10, window_s=300)
_CACHE_TTL_S = 2.0
_LAST_USE_EVERY_S = 60


class AccountService:
    """Users and sessions, API keys, websites.

    password_work: limits concurrent password hashes, of 64 MB each.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._attempts = AttemptLimiter(LOG_IN_POLICY)
        self._callers: TtlCache[bytes, Caller] = TtlCache(_CACHE_TTL_S)
        self._websites: TtlCache[str, Website] = TtlCache(_CACHE_TTL_S)
        self._apps: TtlCache[None, tuple[MobileApp, ...]] = TtlCache(_CACHE_TTL_S)
        self._used_at_ms: dict[KeyId, int] = {}
        self._last_use_lock = Lock()
        self.worker = Worker(
            "key_last_use",
            self.write_last_uses,
            clock,
            period_s=_LAST_USE_EVERY_S,
            last_step=self.write_last_uses,
        )
        self.password_work = CapacityLimiter(2)
        self._has_accounts = False
        self._setup_token = new_token()
        if not self.has_accounts():
            self._store_setup_token()

    def has_accounts(self) -> bool:
        """Whether any account exists. Asks the database until one does: another node may add it."""
        if not self._has_accounts:
            with self._database.read() as db:
                self._has_accounts = store.any_account(db)
        return self._has_accounts

    @property
    def setup_token(self) -> str | None:
        """Token that allows the first sign-up from another machine. None once an account exists.

        Each node has its own; every node accepts the tokens of all nodes.
        """
        return None if self.has_accounts() else self._setup_token

    def _store_setup_token(self) -> None:
        with self._database.write() as db:
            store.lock_sign_ups(db)
            if not store.any_account(db):
                store.add_setup_token(db, hash_secret(self._setup_token), self._clock())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the last uses of keys periodically while the service runs, and once at the end."""
        async with self.worker.running():
            yield

    # Users and sessions

    def sign_up(
        self, form: SignUp, *, is_local_client: bool, setup_token: str | None
    ) -> tuple[str, CurrentUser]:
        """Create a user, in a new or the inviting workspace: the session token and the user.

        `Forbidden` when sign-up is closed to this request, `NotFound` for an invalid invitation,
        `Conflict` when the e-mail address has an account.
        """
        with self._database.read() as db:
            self._check_sign_up(db, form, is_local_client, setup_token)
        hashed_password = password_hash(form.password.get_secret_value())
        now_ms = self._clock()
        user = User(UserAccountId(new_id("usr", now_ms)), form.email, now_ms)
        with self._database.write() as db:
            store.lock_sign_ups(db)
            # Again: another sign-up may have been first meanwhile, on any node.
            self._check_sign_up(db, form, is_local_client, setup_token)
            store.delete_setup_tokens(db)
            store.add_user(db, user, hashed_password)
            account = self._first_workspace(db, user, form)
            store.add_member(db, account, now_ms)
            token = self._open_session(db, account, now_ms)
        self._has_accounts = True
        return token, account

    def _first_workspace(self, db: Connection, user: User, form: SignUp) -> CurrentUser:
        """The new user in the inviting workspace, or in a new one."""
        if form.invitation is not None:
            invitation = invitation_tokens.redeem(
                db, form.invitation.get_secret_value(), user.email, user.created_at_ms
            )
            return CurrentUser(user, invitation.workspace, invitation.role)
        workspace = Workspace(
            WorkspaceId(new_id("wsp", user.created_at_ms)),
            form.workspace_name or "",
            user.created_at_ms,
        )
        store.add_workspace(db, workspace)
        return CurrentUser(user, workspace, Role.OWNER)

    def _check_sign_up(
        self, db: Connection, form: SignUp, is_local_client: bool, setup_token: str | None
    ) -> None:
        if form.invitation is not None:
            invitation_tokens.find(
                db, form.invitation.get_secret_value(), form.email, self._clock()
            )
        elif not store.any_account(db):
            if not is_local_client and not _is_setup_token(db, setup_token):
                raise Forbidden(
                    "Create the first account from the machine that Penstock runs on, or send the "
                    "setup token that `penstock serve` printed in the header X-Setup-Token.",
                    code="setup_token_required",
                )
        elif not self._settings.signup_open:
            raise Forbidden(
                "Sign-up is closed. The operator can open it with PENSTOCK_SIGNUP_OPEN.",
                code="signup_closed",
            )
        if store.email_taken(db, form.email):
            raise Conflict(
                "This e-mail address already has an account. Log in instead.", code="email_taken"
            )

    def log_in(self, email: str, password: str, address: str) -> tuple[str, CurrentUser]:
        """Open a session: its token and the user. address: IP address of the client.

        `Unauthorized`, with the same text and timing whether or not the e-mail address has an
        account. `RateLimited` after too many attempts for this e-mail address from this address.
        """
        now_ms, email = self._clock(), email.strip().lower()
        self._attempts.count((email, address), now_ms)
        with self._database.read() as db:
            account = store.account_by_email(db, email)
        matches = password_matches(password, account[1] if account else None)
        if account is None or not matches:
            raise _wrong_login()
        self._attempts.forget((email, address))
        with self._database.write() as db:
            store.lock_user(db, account[0].user.id)
            # The password may have changed, or the user been removed, while we hashed.
            if store.account_by_email(db, email) != account:
                raise _wrong_login()
            store.delete_expired_sessions(db, now_ms)
            return self._open_session(db, account[0], now_ms), account[0]

    def _open_session(self, db: Connection, account: CurrentUser, now_ms: int) -> str:
        token = new_token()
        session_id = SessionId(new_id("ses", now_ms))
        store.add_session(
            db, session_id, hash_secret(token), account, now_ms, now_ms + self._session_ms
        )
        return token

    @property
    def _session_ms(self) -> int:
        return self._settings.session_days * DAY_S * 1000

    def session(self, token: str) -> CurrentUser:
        """The user of the session; `Unauthorized` when it has ended.

        Use extends the session; the new end is written at most once an hour.
        """
        now_ms, token_hash = self._clock(), hash_secret(token)
        with self._database.read() as db:
            row = store.session(db, token_hash, now_ms)
        if row is None:
            raise Unauthorized("The session has ended. Log in again.", code="session_ended")
        account, expires_at_ms = row
        if now_ms + self._session_ms - expires_at_ms > 3_600_000:
            with self._database.write() as db:
                store.extend_session(db, token_hash, now_ms, now_ms + self._session_ms)
        return account

    def log_out(self, token: str) -> None:
        with self._database.write() as db:
            store.end_session(db, hash_secret(token))

    # API keys

    def authenticate_cached(self, authorization: str | None) -> Caller | None:
        """The caller of an `Authorization` header, if cached. Never blocks."""
        key = _bearer_key(authorization)
        caller = None if key is None else self._callers.get(hash_secret(key))
        return None if caller is None else self._record_use(caller)

    async def authenticate(self, authorization: str | None) -> Caller:
        """The caller of an `Authorization` header; `Unauthorized` without a valid key.

        Does not block the event loop.
        """
        caller = self.authenticate_cached(authorization)
        if caller is not None:
            return caller
        key = _bearer_key(authorization)
        if key is None:
            raise Unauthorized(
                "Send a workspace API key in the header Authorization: Bearer <key>.",
                code="key_required",
            )
        key_hash = hash_secret(key)

        def read_caller() -> Caller | None:
            with self._database.read() as db:
                return store.key_holder(db, key_hash)

        caller = await self._callers.fetch(key_hash, read_caller)
        if caller is None:
            raise Unauthorized("The API key is not valid.", code="key_not_valid")
        return self._record_use(caller)

    def _record_use(self, caller: Caller) -> Caller:
        if caller.key_id is not None:
            self._used_at_ms[caller.key_id] = self._clock()
        return caller

    def write_last_uses(self) -> None:
        """Store when keys were last used. After an error they are written the next time."""
        with self._last_use_lock:
            pending = dict(self._used_at_ms)
            if not pending:
                return
            with self._database.write() as db:
                store.update_last_uses(db, pending)
            for key_id, at_ms in pending.items():
                if self._used_at_ms.get(key_id) == at_ms:
                    del self._used_at_ms[key_id]

    def create_key(self, workspace_id: WorkspaceId, name: str) -> tuple[ApiKey, str]:
        """A new key and its secret, which cannot be read again."""
        now_ms, secret = self._clock(), new_api_key()
        key = ApiKey(
            id=KeyId(new_id("key", now_ms)),
            name=name,
            prefix=secret[:KEY_PREFIX_CHARS],
            created_at_ms=now_ms,
        )
        with self._database.write() as db:
            store.add_key(db, workspace_id, key, hash_secret(secret))
        return key, secret

    def keys(self, workspace_id: WorkspaceId, page: Page) -> Listing[ApiKey]:
        with self._database.read() as db:
            keys = store.keys(db, workspace_id, page)
        return replace(keys, data=[self._with_last_use(key) for key in keys.data])

    def _with_last_use(self, key: ApiKey) -> ApiKey:
        """The key with the last use that this node has not stored yet."""
        used_at_ms = self._used_at_ms.get(key.id)
        return (
            key
            if used_at_ms is None
            else replace(key, last_used_at_ms=max(used_at_ms, key.last_used_at_ms or used_at_ms))
        )

    def revoke_key(self, workspace_id: WorkspaceId, key_id: str) -> None:
        """Revoke the key, on other nodes within two seconds. Revoking again changes nothing."""
        with self._database.write() as db:
            key_hash = store.revoke_key(db, workspace_id, key_id, self._clock())
        if key_hash is None:
            raise NotFound("This workspace has no such API key.")
        self._callers.forget(key_hash)

    # Websites

    def websites_with_retention(self) -> list[Website]:
        """Websites of every workspace that do not keep all events for ever."""
        with self._database.read() as db:
            return store.websites_with_retention(db)

    def create_website(self, workspace_id: WorkspaceId, form: NewWebsite) -> Website:
        now_ms = self._clock()
        website_id = WebsiteId(new_id("web", now_ms))
        website = Website(
            id=website_id,
            workspace_id=workspace_id,
            name=form.name,
            kind=form.kind,
            domain=form.domain,
            identity_scope=form.identity_scope,
            scope_id=ScopeId(
                website_id
                if form.identity_scope is None
                else f"{workspace_id}/{form.identity_scope}"
            ),
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            app=form.app,
            retention_days=form.retention_after({}),
        )
        with self._database.write() as db:
            store.add_website(db, website)
        self._apps.forget(None)
        return website

    def website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """A website by its own address; `NotFound` when the workspace has none with this ID.

        For an ID in a body or query, use `owned_website`.
        """
        website = self.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise _no_such_website()
        return website

    def owned_website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """The website of a request's `websiteId`; `Unauthorized` when another workspace owns it.

        Source: interface, section 5, rule 4.
        """
        website = self.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise Unauthorized(
                "websiteId: this key's workspace has no such website.",
                code="website_not_owned",
            )
        return website

    def select_websites(self, workspace_id: WorkspaceId, website_id: str | None) -> list[Website]:
        """The owned website with this ID, or all websites of the workspace for None."""
        return (
            self.websites(workspace_id)
            if website_id is None
            else [self.owned_website(workspace_id, website_id)]
        )

    def app(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """A mobile app; `NotFound` when the workspace has none with this ID.

        Source: interface, section 7.
        """
        website = self.find_website(website_id)
        if (
            website is None
            or website.workspace_id != workspace_id
            or website.kind is not WebsiteKind.MOBILE
        ):
            raise NotFound("App not found", code="app_not_found")
        return website

    def find_website(self, website_id: str) -> Website | None:
        """A website in any workspace, for public routes. Blocks only on a cache miss."""
        return (
            None
            if "\x00" in website_id
            else self._websites.load(website_id, partial(self._read_website, website_id))
        )

    async def find_website_async(self, website_id: str) -> Website | None:
        """Like `find_website`, without blocking the event loop."""
        if (website := self._websites.get(website_id)) is not None or "\x00" in website_id:
            return website
        return await self._websites.fetch(website_id, partial(self._read_website, website_id))

    def _read_website(self, website_id: str) -> Website | None:
        with self._database.read() as db:
            return store.website(db, website_id)

    def websites(self, workspace_id: WorkspaceId) -> list[Website]:
        """All websites of the workspace, oldest first."""
        with self._database.read() as db:
            return store.all_websites(db, workspace_id)

    async def mobile_apps(self) -> tuple[MobileApp, ...]:
        """The apps of all workspaces, oldest first. Does not block the event loop."""
        if (apps := self._apps.get(None)) is not None:
            return apps
        return await self._apps.fetch(None, self._read_apps) or ()

    def _read_apps(self) -> tuple[MobileApp, ...]:
        with self._database.read() as db:
            return store.mobile_apps(db)

    def websites_sharing_visitors(self, website: Website) -> list[WebsiteId]:
        """All websites of its identity scope, including deleted ones: their events are kept."""
        with self._database.read() as db:
            return store.scope_websites(db, website.workspace_id, website.scope_id)

    def websites_page(self, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
        with self._database.read() as db:
            return store.websites_page(db, workspace_id, page)

    def change_website(
        self, workspace_id: WorkspaceId, website_id: str, changes: WebsiteChanges
    ) -> Website:
        """Change the fields that were sent; the others keep their value."""
        with self._database.write() as db:
            before = store.website(db, website_id, lock=True)
            if before is None or before.workspace_id != workspace_id:
                raise _no_such_website()
            after = replace(_apply_changes(before, changes), updated_at_ms=self._clock())
            store.update_website(db, after)
        self._websites.forget(website_id)
        self._apps.forget(None)
        return after

    def delete_website(self, workspace_id: WorkspaceId, website_id: str) -> None:
        """The website accepts no more events and is not listed. Its stored events are kept."""
        with self._database.write() as db:
            if not store.delete_website(db, workspace_id, website_id, self._clock()):
                raise _no_such_website()
        self._websites.forget(website_id)
        self._apps.forget(None)


def _apply_changes(website: Website, changes: WebsiteChanges) -> Website:
    app_values = changes.sent_values(APP_FIELDS)
    changed = [name for name, value in app_values.items() if value != getattr(website.app, name)]
    if website.kind is WebsiteKind.WEB and (
        faults := [only_mobile(name) for name in changed if app_values[name]]
    ):
        raise Invalid(faults)
    return replace(
        website,
        **changes.sent_values(("name", "domain")),
        app=replace(website.app, **app_values),
        retention_days=changes.retention_after(website.retention_days),
    )


def _is_setup_token(db: Connection, token: str | None) -> bool:
    return token is not None and store.has_setup_token(db, hash_secret(token))


def _wrong_login() -> Unauthorized:
    return Unauthorized("The e-mail address or the password is wrong.", code="wrong_login")


def _no_such_website() -> NotFound:
    return NotFound("This workspace has no such website.")


def _bearer_key(authorization: str | None) -> str | None:
    """The key in an `Authorization` header; None without the Bearer scheme."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
