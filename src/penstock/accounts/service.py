"""Use cases of accounts. Methods block for as long as the metadata DB takes, unless they say otherwise: call them from a worker thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import NoReturn

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from penstock.accounts import store
from penstock.accounts.attempts import Attempts
from penstock.accounts.credentials import (
    KEY_PREFIX_CHARS,
    fingerprint,
    new_api_key,
    new_token,
    password_hash,
    password_matches,
    same_secret,
)
from penstock.accounts.model import ApiKey, Caller, MobileApp, Role, SignedIn, User, Website, WebsiteKind, Workspace
from penstock.accounts.people import invited
from penstock.accounts.people.store import hold_user
from penstock.accounts.recent import Recent
from penstock.accounts.schema import APP_FIELDS, NewWebsite, SignUp, WebsiteChanges, only_mobile
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Forbidden, Invalid, NotFound, RatePolicy, Unauthorized
from penstock.base.ids import KeyId, ScopeId, SessionId, UserAccountId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

log = structlog.get_logger()

LOG_IN_POLICY = RatePolicy("login", quota=10, window_s=300)
_BELIEVED_S = 2.0
_LAST_USE_EVERY_S = 60


class AccountService:
    """Users and sessions, API keys, websites.

    password_work: bounds how many password hashes, each of 64 MB, are computed at once.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._attempts = Attempts(LOG_IN_POLICY)
        self._callers: Recent[bytes, Caller] = Recent(_BELIEVED_S)
        self._websites: Recent[str, Website] = Recent(_BELIEVED_S)
        self._apps: Recent[None, tuple[MobileApp, ...]] = Recent(_BELIEVED_S)
        self._used_at_ms: dict[KeyId, int] = {}
        self._noting = Lock()
        self.password_work = CapacityLimiter(2)
        with database.read() as db:
            self._setup_token = None if store.any_account(db) else new_token()

    @property
    def setup_token(self) -> str | None:
        """The one-time token that opens sign-up from elsewhere, for `serve` to print; None once an account exists."""
        return self._setup_token

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs: write down now and then when keys were last used, and once more at the end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._note_last_uses)
            yield
            tasks.cancel_scope.cancel()
        await to_thread.run_sync(self.note_last_uses)

    # Users and sessions

    def sign_up(self, form: SignUp, *, from_this_machine: bool, setup_token: str | None) -> tuple[str, SignedIn]:
        """A new user, in a workspace of their own or the one that invites, signed in: the session token and who it stands for.

        `Forbidden` when sign-up is not open to this request, `NotFound` when the invitation is not open, `Conflict` when the e-mail address
        has an account.
        """
        may_be_first = from_this_machine or self._knows_setup_token(setup_token)
        with self._database.read() as db:
            self._check_sign_up(db, form, may_be_first)
        hashed = password_hash(form.password.get_secret_value())
        now_ms = self._clock()
        user = User(UserAccountId(new_id("usr", now_ms)), form.email, now_ms)
        with self._database.write() as db:
            store.hold_sign_ups(db)
            self._check_sign_up(db, form, may_be_first)  # again: somebody may have been first while we hashed
            store.add_user(db, user, hashed)
            account = self._first_workspace(db, user, form)
            store.add_member(db, account, now_ms)
            token = self._open_session(db, account, now_ms)
        self._setup_token = None
        return token, account

    def _first_workspace(self, db: Connection, user: User, form: SignUp) -> SignedIn:
        """What a new user joins: the workspace that invites, or a new one."""
        if form.invitation is not None:
            invitation = invited.take(db, form.invitation.get_secret_value(), user.email, user.created_at_ms)
            return SignedIn(user, invitation.workspace, invitation.role)
        workspace = Workspace(WorkspaceId(new_id("wsp", user.created_at_ms)), form.workspace_name or "", user.created_at_ms)
        store.add_workspace(db, workspace)
        return SignedIn(user, workspace, Role.OWNER)

    def _knows_setup_token(self, given: str | None) -> bool:
        return given is not None and self._setup_token is not None and same_secret(given, self._setup_token)

    def _check_sign_up(self, db: Connection, form: SignUp, may_be_first: bool) -> None:
        if form.invitation is not None:
            invited.find(db, form.invitation.get_secret_value(), form.email, self._clock())
        elif not store.any_account(db):
            if not may_be_first:
                raise Forbidden(
                    "The first account is made from the machine that Penstock runs on, or with the setup token that "
                    "`penstock serve` printed, in the header X-Setup-Token.",
                    code="setup_token_required",
                )
        elif not self._settings.signup_open:
            raise Forbidden("Sign-up is closed here. Its operator can open it with PENSTOCK_SIGNUP_OPEN.", code="signup_closed")
        if store.email_taken(db, form.email):
            raise Conflict("This e-mail address has an account; log in instead.", code="email_taken")

    def log_in(self, email: str, password: str, address: str) -> tuple[str, SignedIn]:
        """The session token and who it stands for. address: where the request came from.

        `Unauthorized` in the same words and the same time whether or not the e-mail address has an account; `RateLimited` after
        too many attempts with this e-mail address from this address.
        """
        now_ms, email = self._clock(), email.strip().lower()
        self._attempts.count((email, address), now_ms)
        with self._database.read() as db:
            found = store.account_by_email(db, email)
        matches = password_matches(password, found[1] if found else None)
        if found is None or not matches:
            raise _wrong_login()
        self._attempts.forget((email, address))
        with self._database.write() as db:
            hold_user(db, found[0].user.id)
            if store.account_by_email(db, email) != found:  # the password was changed, or the user removed, while we hashed
                raise _wrong_login()
            store.drop_ended_sessions(db, now_ms)
            return self._open_session(db, found[0], now_ms), found[0]

    def _open_session(self, db: Connection, account: SignedIn, now_ms: int) -> str:
        token = new_token()
        session_id = SessionId(new_id("ses", now_ms))
        store.add_session(db, session_id, fingerprint(token), account, now_ms, now_ms + self._session_ms)
        return token

    @property
    def _session_ms(self) -> int:
        return self._settings.session_days * DAY_S * 1000

    def session(self, token: str) -> SignedIn:
        """Who the session stands for; `Unauthorized` when it has ended. Its use puts its end off, written at most once an hour."""
        now_ms, token_hash = self._clock(), fingerprint(token)
        with self._database.read() as db:
            found = store.session(db, token_hash, now_ms)
        if found is None:
            raise Unauthorized("The session has ended; log in again.", code="session_ended")
        account, expires_at_ms = found
        if now_ms + self._session_ms - expires_at_ms > 3_600_000:
            with self._database.write() as db:
                store.extend_session(db, token_hash, now_ms, now_ms + self._session_ms)
        return account

    def log_out(self, token: str) -> None:
        with self._database.write() as db:
            store.end_session(db, fingerprint(token))

    # API keys

    def authenticate_cached(self, authorization: str | None) -> Caller | None:
        """Who an `Authorization` header speaks for, if this node knew it a moment ago; else ask `authenticate`. Never blocks."""
        key = _bearer_key(authorization)
        caller = None if key is None else self._callers.get(fingerprint(key))
        return None if caller is None else self._noted(caller)

    async def authenticate(self, authorization: str | None) -> Caller:
        """Who an `Authorization` header speaks for; `Unauthorized` when no key in force is in it. Does not block the event loop."""
        known = self.authenticate_cached(authorization)
        if known is not None:
            return known
        key = _bearer_key(authorization)
        if key is None:
            raise Unauthorized("Send a workspace API key, as Authorization: Bearer <key>.", code="key_required")
        key_hash = fingerprint(key)

        def holder() -> Caller | None:
            with self._database.read() as db:
                return store.key_holder(db, key_hash)

        caller = await self._callers.fetch(key_hash, holder)
        if caller is None:
            raise Unauthorized("The API key is not valid.", code="key_not_valid")
        return self._noted(caller)

    def _noted(self, caller: Caller) -> Caller:
        if caller.key_id is not None:
            self._used_at_ms[caller.key_id] = self._clock()
        return caller

    async def _note_last_uses(self) -> NoReturn:
        while True:
            await anyio.sleep(_LAST_USE_EVERY_S)
            await to_thread.run_sync(self.note_last_uses)

    def note_last_uses(self) -> None:
        """Write down when keys were last used. What cannot be written now is tried again the next time."""
        with self._noting:
            noted = dict(self._used_at_ms)
            if not noted:
                return
            try:
                with self._database.write() as db:
                    store.note_last_uses(db, noted)
            except DBAPIError as error:
                log.warning("last_uses_not_written", error=type(error.orig).__name__)
                return
            for key_id, at_ms in noted.items():
                if self._used_at_ms.get(key_id) == at_ms:
                    del self._used_at_ms[key_id]

    def create_key(self, workspace_id: WorkspaceId, name: str) -> tuple[ApiKey, str]:
        """A new key, and the secret itself, which cannot be had again."""
        now_ms, secret = self._clock(), new_api_key()
        key = ApiKey(id=KeyId(new_id("key", now_ms)), name=name, prefix=secret[:KEY_PREFIX_CHARS], created_at_ms=now_ms)
        with self._database.write() as db:
            store.add_key(db, workspace_id, key, fingerprint(secret))
        return key, secret

    def keys(self, workspace_id: WorkspaceId, page: Page) -> Listing[ApiKey]:
        with self._database.read() as db:
            found = store.keys(db, workspace_id, page)
        return replace(found, data=[self._with_last_use(key) for key in found.data])

    def _with_last_use(self, key: ApiKey) -> ApiKey:
        """The key with the last use that this node has not written down yet."""
        here_ms = self._used_at_ms.get(key.id)
        return key if here_ms is None else replace(key, last_used_at_ms=max(here_ms, key.last_used_at_ms or here_ms))

    def revoke_key(self, workspace_id: WorkspaceId, key_id: str) -> None:
        """From now on the key is nobody's; on other nodes within two seconds. To revoke it again changes nothing."""
        with self._database.write() as db:
            key_hash = store.revoke_key(db, workspace_id, key_id, self._clock())
        if key_hash is None:
            raise NotFound("There is no such API key in this workspace.")
        self._callers.forget(key_hash)

    # Websites

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
            scope_id=ScopeId(website_id if form.identity_scope is None else f"{workspace_id}/{form.identity_scope}"),
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            app=form.app,
        )
        with self._database.write() as db:
            store.add_website(db, website)
        self._apps.forget(None)
        return website

    def website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """A website as a record of its own; `NotFound` when the workspace has no such one. For a `websiteId` see `owned_website`."""
        found = self.find_website(website_id)
        if found is None or found.workspace_id != workspace_id:
            raise _no_such_website()
        return found

    def owned_website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """The website that a request names in `websiteId`; `Unauthorized` (401) when the caller's workspace does not own it.

        Source: interface, section 5, rule 4.
        """
        found = self.find_website(website_id)
        if found is None or found.workspace_id != workspace_id:
            raise Unauthorized("websiteId: the workspace of this key has no such website.", code="website_not_owned")
        return found

    def websites_asked(self, workspace_id: WorkspaceId, website_id: str | None) -> list[Website]:
        """The one that a request names in `websiteId`, as `owned_website`; all of the workspace when it names none."""
        return self.websites(workspace_id) if website_id is None else [self.owned_website(workspace_id, website_id)]

    def app(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        """A mobile app; `NotFound` when the workspace has no such one. Source: interface, section 7."""
        found = self.find_website(website_id)
        if found is None or found.workspace_id != workspace_id or found.kind is not WebsiteKind.MOBILE:
            raise NotFound("App not found", code="app_not_found")
        return found

    def find_website(self, website_id: str) -> Website | None:
        """A website of whatever workspace, for the public routes. Blocks only when it was not read in the last two seconds."""
        return None if "\x00" in website_id else self._websites.load(website_id, partial(self._read_website, website_id))

    async def locate_website(self, website_id: str) -> Website | None:
        """As `find_website`, without blocking the event loop."""
        if (known := self._websites.get(website_id)) is not None or "\x00" in website_id:
            return known
        return await self._websites.fetch(website_id, partial(self._read_website, website_id))

    def _read_website(self, website_id: str) -> Website | None:
        with self._database.read() as db:
            return store.website(db, website_id)

    def websites(self, workspace_id: WorkspaceId) -> list[Website]:
        """All of a workspace, oldest first."""
        with self._database.read() as db:
            return store.all_websites(db, workspace_id)

    async def mobile_apps(self) -> tuple[MobileApp, ...]:
        """What each app of the installation tells of itself, of whatever workspace, oldest first. Does not block the event loop."""
        if (known := self._apps.get(None)) is not None:
            return known
        return await self._apps.fetch(None, self._read_apps) or ()

    def _read_apps(self) -> tuple[MobileApp, ...]:
        with self._database.read() as db:
            return store.mobile_apps(db)

    def websites_sharing_visitors(self, website: Website) -> list[WebsiteId]:
        """All websites of its identity scope, itself included; those that were deleted, too, for their events are kept."""
        with self._database.read() as db:
            return store.scope_websites(db, website.workspace_id, website.scope_id)

    def websites_page(self, workspace_id: WorkspaceId, page: Page) -> Listing[Website]:
        with self._database.read() as db:
            return store.websites_page(db, workspace_id, page)

    def change_website(self, workspace_id: WorkspaceId, website_id: str, changes: WebsiteChanges) -> Website:
        """The website with the given fields changed; those that were not sent stay."""
        with self._database.write() as db:
            before = store.website(db, website_id, hold=True)
            if before is None or before.workspace_id != workspace_id:
                raise _no_such_website()
            after = replace(_changed(before, changes), updated_at_ms=self._clock())
            store.change_website(db, after)
        self._websites.forget(website_id)
        self._apps.forget(None)
        return after

    def delete_website(self, workspace_id: WorkspaceId, website_id: str) -> None:
        """It takes no more events and is not listed; the events it has are kept."""
        with self._database.write() as db:
            if not store.delete_website(db, workspace_id, website_id, self._clock()):
                raise _no_such_website()
        self._websites.forget(website_id)
        self._apps.forget(None)


def _changed(website: Website, changes: WebsiteChanges) -> Website:
    of_app = changes.given(APP_FIELDS)
    if website.kind is WebsiteKind.WEB and (refused := [only_mobile(name) for name, value in of_app.items() if value]):
        raise Invalid(refused)
    return replace(website, **changes.given(("name", "domain")), app=replace(website.app, **of_app))


def _wrong_login() -> Unauthorized:
    return Unauthorized("The e-mail address or the password is wrong.", code="wrong_login")


def _no_such_website() -> NotFound:
    return NotFound("There is no such website in this workspace.")


def _bearer_key(authorization: str | None) -> str | None:
    """The key in an `Authorization` header; None when it has no Bearer scheme."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
