"""Use cases for users and sessions: sign-up, log-in, and finding a session's user.

Synchronous methods block on the metadata DB: call them from a worker thread.
"""

from dataclasses import replace
from functools import partial

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts import store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.credentials import (
    hash_secret,
    new_token,
    password_hash,
    password_matches,
    unusable_password_hash,
)
from penstock.accounts.invitations import tokens as invitation_tokens
from penstock.accounts.known_networks.service import KnownNetworks
from penstock.accounts.log_in_limits import LogInLimits
from penstock.accounts.model import (
    CurrentUser,
    PendingLogIn,
    Role,
    User,
    VerifiedLogIn,
    Workspace,
)
from penstock.accounts.schema import SignUp
from penstock.accounts.second_factor import store as second_factor_store
from penstock.accounts.second_factor.service import SecondFactorService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Forbidden, QueueFull, RateLimited, Unauthorized
from penstock.base.fair_queue import FairQueue
from penstock.base.ids import SessionId, UserAccountId, WorkspaceId, new_id
from penstock.base.networks import client_network
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

_MAX_WRONG_CODES = 5
"""Maximum number of wrong codes. The pending log-in then ends, and the password is needed again."""


class AccountService:
    """Users and their sessions.

    password_work: the queue for password hashes, from `password_queue`.
    """

    def __init__(
        self,
        database: Database,
        audit_log: AuditLog,
        second_factors: SecondFactorService,
        confirmations: ConfirmationService,
        networks: KnownNetworks,
        password_work: FairQueue,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._audit_log, self._second_factors = audit_log, second_factors
        self._confirmations, self._networks = confirmations, networks
        self._limits = LogInLimits(settings.limits.failed_log_ins, settings.share, clock)
        self._password_work = password_work
        self._has_accounts = False
        self._setup_token = new_token()
        if not self.has_accounts():
            self._store_setup_token()

    def has_accounts(self) -> bool:
        """Whether any account exists. Asks the database until one does, because any node may add
        the first account.
        """
        if not self._has_accounts:
            with self._database.read() as db:
                self._has_accounts = store.any_account(db)
        return self._has_accounts

    @property
    def setup_token(self) -> str | None:
        """The token that allows the first sign-up from another machine; None once an account
        exists.

        Each node has its own token, and every node accepts the tokens of all nodes.
        """
        return None if self.has_accounts() else self._setup_token

    def _store_setup_token(self) -> None:
        with self._database.write() as db:
            store.lock_sign_ups(db)
            if not store.any_account(db):
                store.add_setup_token(db, hash_secret(self._setup_token), self._clock())

    async def sign_up(
        self, form: SignUp, address: str, *, is_local_client: bool, setup_token: str | None
    ) -> tuple[str, CurrentUser]:
        """Create a user in a new or the inviting workspace. Returns the session token and the user.

        address: IP address of the client. Raises `Forbidden` if sign-up is closed to this request,
        `NotFound` if the invitation is invalid, and `Conflict` if the email address has an account.
        """
        network = client_network(address)
        work = partial(self._sign_up, form, network, is_local_client, setup_token)
        token, account = await self._password_work.run(network, work)
        self._confirmations.send_after_sign_up(account.user, network)
        return token, account

    def _sign_up(
        self, form: SignUp, network: str, is_local_client: bool, setup_token: str | None
    ) -> tuple[str, CurrentUser]:
        with self._database.read() as db:
            self._check_sign_up(db, form, is_local_client, setup_token)
        hashed_password = password_hash(form.password.get_secret_value())
        now_ms = self._clock()
        with self._database.write() as db:
            store.lock_sign_ups(db)
            # Check again: another sign-up, on any node, may have come first.
            self._check_sign_up(db, form, is_local_client, setup_token)
            store.delete_setup_tokens(db)
            # The operator's own account needs no proof, because nobody else could have created it.
            confirmed_at_ms = None if store.any_account(db) else now_ms
            user_id = UserAccountId(new_id("usr", now_ms))
            user = User(user_id, form.email, now_ms, confirmed_at_ms)
            account = self._first_workspace(db, user, form)
            user = account.user
            store.add_user(db, user, hashed_password)
            store.add_member(db, account, now_ms)
            token = self._open_session(db, account, network, now_ms)
            action = Action.SIGNED_UP if form.invitation is None else Action.MEMBER_JOINED
            audit.record(db, account.caller, action, user.target, now_ms)
        self._has_accounts = True
        return token, account

    def _first_workspace(self, db: Connection, user: User, form: SignUp) -> CurrentUser:
        """Return the new user as a member of the inviting workspace, or of a new one."""
        if form.invitation is not None:
            invitation = invitation_tokens.redeem(
                db, form.invitation.get_secret_value(), user.email, user.created_at_ms
            )
            if invitation.proves_address:
                user = replace(user, email_confirmed_at_ms=user.created_at_ms)
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
                    "header X-Setup-Token with the setup token that `penstock serve` printed.",
                    code="setup_token_required",
                )
        elif not self._settings.signup_open:
            raise Forbidden(
                "Sign-up is closed. The operator can open it with PENSTOCK_SIGNUP_OPEN.",
                code="signup_closed",
            )
        if store.email_taken(db, form.email):
            raise Conflict(
                "This email address already has an account. Log in instead.", code="email_taken"
            )

    async def log_in(
        self, email: str, password: str, address: str
    ) -> tuple[str, CurrentUser] | PendingLogIn:
        """Open a session. Returns its token and the user. address: IP address of the client.

        Returns `PendingLogIn` if the user has a second factor: call `finish_log_in` next. Raises
        `Unauthorized` if the log-in fails, with the same text and timing whether or not the email
        address has an account. Raises `RateLimited`, before comparing any password, after too many
        attempts for this email address, from this network or in total. Raises `QueueFull` if too
        many log-ins are waiting, which does not count as an attempt.
        """
        email = email.strip().lower()
        network = client_network(address)
        is_shared = await self._count_attempt(email, network)
        try:
            opened = await self._password_work.run(network, self._log_in, email, password, network)
        except QueueFull:  # no password was compared
            self._forgive(email, network, is_shared=is_shared)
            raise
        self._forgive(email, network, is_shared=is_shared)
        # With a pending log-in, earlier wrong codes still count.
        if not isinstance(opened, PendingLogIn):
            self._limits.forget(email, network)
        return opened

    async def _count_attempt(self, email: str, network: str) -> bool:
        """Count an attempt. Returns whether it counts against the limits that all networks share.

        Raises `RateLimited`. If strangers have exhausted a shared limit, a network that the user
        has logged in from before still has its own limits.
        """
        self._limits.count_own(email, network)
        try:
            self._limits.count_shared(email)
        except RateLimited:
            if not await to_thread.run_sync(self._networks.knows, email, network):
                raise
            return False
        return True

    def _forgive(self, email: str, network: str, *, is_shared: bool) -> None:
        self._limits.forgive_own(email, network)
        if is_shared:
            self._limits.forgive_shared(email)

    def _log_in(
        self, email: str, password: str, network: str
    ) -> tuple[str, CurrentUser] | PendingLogIn:
        now_ms = self._clock()
        with self._database.read() as db:
            account = store.account_by_email(db, email)
        matches = password_matches(password, account[1] if account else None)
        if account is None or not matches:
            if account is not None:
                target = f"{account[0].user.id} {email}"
                self._audit_log.note(account[0].caller, Action.SIGN_IN_FAILED, target)
            raise _wrong_login()
        user_id = account[0].user.id
        with self._database.write() as db:
            store.lock_user(db, user_id)
            # During hashing, the password may have changed, or the user may have been removed.
            if store.account_by_email(db, email) != account:
                raise _wrong_login()
            return self._sign_in(db, account[0], f"{user_id} {email}", network, now_ms)

    def _sign_in(
        self, db: Connection, account: CurrentUser, target: str, network: str, now_ms: int
    ) -> tuple[str, CurrentUser] | PendingLogIn:
        """Open a session, or first ask for the second factor. target: the audit entry's target."""
        store.delete_expired_sessions(db, now_ms)
        if second_factor_store.is_enabled(db, account.user.id):
            pending = new_token()
            store.add_pending_log_in(db, pending, account.user.id, now_ms)
            return PendingLogIn(pending)
        audit.record(db, account.caller, Action.SIGNED_IN, target, now_ms)
        return self._open_session(db, account, network, now_ms), account

    def log_in_verified(self, email: str, network: str) -> VerifiedLogIn | None:
        """Open a session for a person verified by an identity provider; None if the person is
        unknown.

        Like `log_in` without the password. An account with an unconfirmed address may belong to a
        stranger who signed up first: it is reclaimed, and its second factor is turned off.
        """
        now_ms, revoked = self._clock(), None
        with self._database.write() as db:
            match = store.account_by_email(db, email)
            if match is None:
                return None
            account, _ = match
            store.lock_user(db, account.user.id)
            # The user was removed while waiting for the lock.
            if store.account_by_email(db, email) != match:
                return None
            if not account.user.email_confirmed:
                second_factor_store.delete_second_factor(db, account.user.id)
                revoked = self._confirmations.reclaim(db, account, "single sign-on", now_ms)
                user = replace(account.user, email_confirmed_at_ms=now_ms)
                account = replace(account, user=user)
            target = f"{account.user.id} {email}: single sign-on"
            opened = self._sign_in(db, account, target, network, now_ms)
        if revoked is not None:
            self._confirmations.tell_reclaimed(account.user, revoked)
        return VerifiedLogIn(opened, is_reclaimed=revoked is not None)

    def join_verified(
        self, email: str, workspace_id: WorkspaceId, role: Role, network: str
    ) -> VerifiedLogIn | None:
        """Like `log_in_verified`, for a person without an account, who joins this workspace.

        Returns None if the workspace does not exist, or the person now has an account.
        """
        now_ms = self._clock()
        user = User(UserAccountId(new_id("usr", now_ms)), email, now_ms, now_ms)
        with self._database.write() as db:
            store.lock_sign_ups(db)
            workspace = store.workspace(db, workspace_id)
            if workspace is None or store.email_taken(db, email):
                return None
            store.add_user(db, user, unusable_password_hash())
            account = CurrentUser(user, workspace, role)
            store.add_member(db, account, now_ms)
            target = f"{user.id} {email}: single sign-on"
            audit.record(db, account.caller, Action.MEMBER_JOINED, target, now_ms)
            session = self._open_session(db, account, network, now_ms)
        return VerifiedLogIn((session, account), is_reclaimed=False)

    def finish_log_in(self, pending: str, code: str, address: str) -> tuple[str, CurrentUser]:
        """Complete a pending log-in with a second-factor code.

        pending: the token of `PendingLogIn`. Raises `Unauthorized` if the code is wrong, or if the
        log-in has expired, is finished or had too many wrong codes. Raises `RateLimited` after too
        many attempts.
        """
        now_ms, token_hash, network = self._clock(), hash_secret(pending), client_network(address)
        with self._database.read() as db:
            account = store.account_of_pending_log_in(db, token_hash, now_ms)
        if account is None:
            raise _expired_log_in()
        user = account.user
        target = user.target
        # The password was correct, so only wrong codes matter. They are limited over all networks.
        self._limits.count_own(user.email, network)
        with self._database.write() as db:
            store.lock_user(db, user.id)
            # Check again: another request may have completed the log-in, or turned the second
            # factor off.
            if store.account_of_pending_log_in(db, token_hash, now_ms) != account:
                raise _expired_log_in()
            is_valid = self._second_factors.verify(db, user, code)
            if is_valid:
                store.end_pending_log_in(db, token_hash)
                audit.record(db, account.caller, Action.SIGNED_IN, target, now_ms)
                session = self._open_session(db, account, network, now_ms)
            else:
                store.count_wrong_code(db, token_hash, _MAX_WRONG_CODES)
        if not is_valid:
            self._audit_log.note(account.caller, Action.SIGN_IN_FAILED, f"{target}: wrong code")
            raise Unauthorized(
                "The code is wrong or has already been used. Wait for the next one, or use a "
                "recovery code.",
                code="wrong_login_code",
            )
        self._limits.forgive_own(user.email, network)
        self._limits.forget(user.email, network)
        return session, account

    def _open_session(self, db: Connection, account: CurrentUser, network: str, now_ms: int) -> str:
        self._networks.remember(db, account.user.id, network, now_ms)
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
        """Return the user of the session. Raises `Unauthorized` if the session has ended.

        Using a session extends it; the new expiry is written at most once an hour.
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


def _is_setup_token(db: Connection, token: str | None) -> bool:
    return token is not None and store.has_setup_token(db, hash_secret(token))


def _expired_log_in() -> Unauthorized:
    return Unauthorized(
        "This log-in has expired. Enter your password again.", code="log_in_expired"
    )


def _wrong_login() -> Unauthorized:
    return Unauthorized("The email address or the password is wrong.", code="wrong_login")
