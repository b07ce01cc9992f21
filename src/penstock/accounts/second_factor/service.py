"""Use cases for the second factor: setting it up, verifying codes, turning it off.

Methods block on the metadata DB: call them from a worker thread.
"""

from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import hash_secret
from penstock.accounts.members import store as members_store
from penstock.accounts.members.service import require_owner
from penstock.accounts.model import Caller, CurrentUser, User
from penstock.accounts.open_sessions import require_open_session
from penstock.accounts.own_account import store as own_account_store
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.second_factor import store
from penstock.accounts.second_factor.codes import (
    bare_code,
    matching_step,
    new_recovery_codes,
    new_totp_secret,
    qr_code,
    totp_uri,
)
from penstock.accounts.second_factor.schema import EnrolmentRecord, SecondFactorRecord
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Fault, Forbidden, Invalid, NotFound, RatePolicy
from penstock.base.ids import new_id
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox

_GUESSES = RatePolicy("second_factor", quota=20, window_s=3600, counted="wrong codes")
"""Limit on wrong codes for one user.

At any time, three of a million codes are valid, so guessing one takes about 16,000 hours.
"""


class SecondFactorService:
    """The second factors of all users.

    Methods raise `Conflict` if the factor's state does not allow the call.
    """

    def __init__(
        self, database: Database, own_account: OwnAccountService, box: SecretBox, clock: Clock
    ) -> None:
        self._database, self._own_account = database, own_account
        self._box, self._clock = box, clock
        self._guesses = RateLimiter(_GUESSES, clock)

    def state(self, user: User) -> SecondFactorRecord:
        with self._database.read() as db:
            return store.state(db, user.id)

    def begin(self, actor: CurrentUser, password: str) -> EnrolmentRecord:
        """Create a secret, replacing an unconfirmed one. It is not used until `confirm` is
        called.
        """
        self._own_account.require_password(actor.user, password, "password")
        secret, now_ms = new_totp_secret(), self._clock()
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            if store.is_enabled(db, actor.user.id):
                raise Conflict(
                    "The second factor is already on. Turn it off first.",
                    code="second_factor_on",
                )
            sealed = self._box.seal(secret)
            store.begin(db, new_id("tfa", now_ms), actor.user.id, sealed, now_ms)
        uri = totp_uri(secret, actor.user.email)
        return EnrolmentRecord(secret=secret, uri=uri, qr_code=qr_code(uri))

    def confirm(self, actor: CurrentUser, session_token: str, code: str) -> list[str]:
        """Turn the second factor on and end the user's other sessions. Returns recovery codes."""
        now_ms, codes = self._clock(), new_recovery_codes()
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            factor = store.second_factor(db, actor.user.id)
            if factor is None or factor.confirmed_at is not None:
                raise Conflict(
                    "No second factor is being set up. Start again.", code="second_factor_not_begun"
                )
            self._guesses.count(actor.user.id)
            step = matching_step(self._box.open(factor.secret), bare_code(code), now_ms)
            if step is None:
                raise _wrong_code()
            self._guesses.forgive(actor.user.id)
            store.use_step(db, actor.user.id, step)
            store.confirm(db, actor.user.id, now_ms)
            store.replace_recovery_codes(db, actor.user.id, _hashes(codes))
            own_account_store.end_other_sessions(db, actor.user.id, hash_secret(session_token))
            self._record(db, actor, Action.SECOND_FACTOR_ENABLED)
        return codes

    def renew_recovery_codes(
        self, actor: CurrentUser, password: str | None, code: str | None
    ) -> list[str]:
        """Create recovery codes. The earlier codes become invalid."""
        codes = new_recovery_codes()
        self._require_proof(actor.user, password, code)
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            if not store.is_enabled(db, actor.user.id):
                raise _not_on()
            store.replace_recovery_codes(db, actor.user.id, _hashes(codes))
            self._record(db, actor, Action.RECOVERY_CODES_CREATED)
        return codes

    def turn_off(self, actor: CurrentUser, password: str | None, code: str | None) -> None:
        self._require_proof(actor.user, password, code)
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            if not store.delete_second_factor(db, actor.user.id):
                raise _not_on()
            self._record(db, actor, Action.SECOND_FACTOR_DISABLED)

    def reset(self, actor: CurrentUser, user_id: str) -> None:
        """Turn off the second factor of a member who has lost it. The caller must be an owner.

        Raises `Conflict` if the member also belongs to other workspaces, whose owners did not
        agree.
        """
        with self._database.write() as db:
            member = members_store.member(db, actor.workspace.id, user_id)
            if member is None:
                raise NotFound("This workspace has no such member.")
            require_owner(db, actor)
            if user_id == actor.user.id:
                raise Forbidden(
                    "Turn off your own second factor in your account.", code="own_second_factor"
                )
            if own_account_store.workspace_count(db, user_id) > 1:
                raise Conflict(
                    "This person is also in other workspaces. Ask the operator of Penstock to run "
                    "`penstock reset-second-factor`.",
                    code="member_elsewhere",
                )
            if not store.delete_second_factor(db, user_id):
                raise _not_on()
            target = f"{user_id} {member.email}"
            audit.record(db, actor.caller, Action.SECOND_FACTOR_RESET, target, self._clock())

    def verify(self, db: Connection, user: User, code: str) -> bool:
        """Whether this is a valid app code or recovery code of the user. A valid code is used up.

        Raises `RateLimited` after too many wrong codes. The caller must have locked the user.
        """
        now_ms, bare = self._clock(), bare_code(code)
        factor = store.second_factor(db, user.id)
        if factor is None or factor.confirmed_at is None:
            return False
        self._guesses.count(user.id)
        step = matching_step(self._box.open(factor.secret), bare, now_ms)
        is_valid = (
            store.use_step(db, user.id, step)
            if step is not None
            else store.use_recovery_code(db, user.id, hash_secret(bare))
        )
        if is_valid:
            self._guesses.forgive(user.id)
        return is_valid

    def _require_proof(self, user: User, password: str | None, code: str | None) -> None:
        """Raise `Invalid` unless the given password or code is correct. One of them must be set."""
        if password is not None:
            self._own_account.require_password(user, password, "password")
            return
        with self._database.write() as db:
            accounts_store.lock_user(db, user.id)
            is_valid = self.verify(db, user, code or "")
        if not is_valid:
            raise _wrong_code()

    def _record(self, db: Connection, actor: CurrentUser, action: Action) -> None:
        audit.record(db, actor.caller, action, actor.user.target, self._clock())


def operator_reset(database: Database, email: str, now_ms: int) -> bool:
    """Turn off a user's second factor for the operator. Returns False if it was not on."""
    with database.write() as db:
        match = accounts_store.account_by_email(db, email.strip().lower())
        if match is None or not store.delete_second_factor(db, match[0].user.id):
            return False
        account, _ = match
        actor, target = Caller(account.workspace.id, name="operator"), f"{account.user.id} {email}"
        audit.record(db, actor, Action.SECOND_FACTOR_RESET, target, now_ms)
        return True


def _hashes(codes: list[str]) -> list[bytes]:
    return [hash_secret(bare_code(code)) for code in codes]


def _wrong_code() -> Invalid:
    text = "This code is wrong or has already been used. Wait for the next one."
    return Invalid([Fault("code", "wrong_code", text)])


def _not_on() -> Conflict:
    return Conflict("The second factor is not on.", code="second_factor_off")
