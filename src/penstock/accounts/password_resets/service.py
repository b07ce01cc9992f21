"""Use cases of forgotten passwords.

Whether an email address has an account shows in no answer and in no time of an answer: the worker
that sends mails looks it up.
"""

from functools import partial

from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import hash_secret, new_token, password_hash
from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.service import Mailer
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.own_account import store as own_account_store
from penstock.accounts.password_resets import store
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, QueueFull, RatePolicy
from penstock.base.networks import client_network
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.settings import Settings

_VALID_S = 3600
_OF_ACCOUNT = RatePolicy("password_reset", quota=3, window_s=3600, counted="requests")
"""For one email address, whether or not it has an account."""
_OF_NETWORK = RatePolicy("password_reset_network", quota=20, window_s=3600, counted="requests")


class PasswordResetService:
    """Resets passwords by a link in a mail."""

    def __init__(
        self, database: Database, mailer: Mailer, settings: Settings, clock: Clock
    ) -> None:
        self._database, self._mailer = database, mailer
        self._settings, self._clock = settings, clock
        self._requests_of_account = RateLimiter(_OF_ACCOUNT)
        self._requests_of_network = RateLimiter(_OF_NETWORK)

    @property
    def is_set_up(self) -> bool:
        """Whether this installation sends mails."""
        return self._mailer.is_set_up

    def request(self, email: str, address: str) -> None:
        """Mail a link to the user with this address, if there is one. Never blocks.

        address: IP address of the client. `RateLimited`, `QueueFull`; `Conflict` without a mail
        server.
        """
        if not self._mailer.is_set_up:
            raise Conflict(
                "Mail is not set up. The service operator can run `penstock reset-password`.",
                code="mail_not_set_up",
            )
        now_ms = self._clock()
        self._requests_of_network.count(client_network(address), now_ms)
        self._requests_of_account.count(email, now_ms)
        if not self._mailer.post(partial(self._mail_with_link, email)):
            raise QueueFull("Too many mails are waiting. Try again later.", retry_after_s=60)

    def _mail_with_link(self, email: str) -> Mail | None:
        """The mail; None for an address without an account."""
        with self._database.write() as db:
            match = accounts_store.account_by_email(db, email)
            if match is None:
                return None
            url = reset_url(db, self._settings, match[0], self._clock())
            target = f"{match[0].user.id} {email}"
            audit.record(
                db, match[0].caller, Action.PASSWORD_RESET_REQUESTED, target, self._clock()
            )
        return Mail(email, "Reset your Penstock password", _MAIL.format(email=email, url=url))

    def reset(self, token: str, password: str) -> None:
        """Set the password and end all sessions of the user. Blocks; hashes a password.

        `NotFound` for a token that is unknown, used or expired.
        """
        token_hash = hash_secret(token)
        with self._database.read() as db:
            _account_of_reset(db, token_hash, self._clock())
        new_hash = password_hash(password)
        with self._database.write() as db:
            user = _account_of_reset(db, token_hash, self._clock()).user
            accounts_store.lock_user(db, user.id)
            # Again: another request may have used the token while we waited for the lock.
            account = _account_of_reset(db, token_hash, self._clock())
            own_account_store.change_password(db, user.id, new_hash)
            own_account_store.end_pending_log_ins(db, user.id)
            store.end_sessions(db, user.id)
            store.end_resets(db, user.id)
            target = f"{user.id} {user.email}"
            audit.record(db, account.caller, Action.PASSWORD_RESET, target, self._clock())
        done = Mail(user.email, "Your Penstock password was changed", _DONE.format(user=user))
        self._mailer.post(lambda: done)


def operator_reset_url(
    database: Database, settings: Settings, email: str, now_ms: int
) -> str | None:
    """URL with which the user sets a new password; None when the address has no account."""
    with database.write() as db:
        match = accounts_store.account_by_email(db, email.strip().lower())
        if match is None:
            return None
        account, _ = match
        by, target = Caller(account.workspace.id, name="operator"), f"{account.user.id} {email}"
        audit.record(db, by, Action.PASSWORD_RESET_REQUESTED, target, now_ms)
        return reset_url(db, settings, account, now_ms)


def reset_url(db: Connection, settings: Settings, account: CurrentUser, now_ms: int) -> str:
    """A new URL for a new password, valid for an hour.

    The token stands behind `#`: browsers do not send it, so that no log has it.
    """
    token = new_token()
    expires_at_ms = now_ms + _VALID_S * 1000
    store.add_reset(db, hash_secret(token), account.user.id, now_ms, expires_at_ms)
    return f"{settings.base_url}/reset-password/new#{token}"


def _account_of_reset(db: Connection, token_hash: bytes, now_ms: int) -> CurrentUser:
    email = store.email_of_reset(db, token_hash, now_ms)
    match = accounts_store.account_by_email(db, email) if email is not None else None
    if match is None:
        raise NotFound(
            "This link was used already or is older than an hour. Request a new one.",
            code="reset_not_found",
        )
    return match[0]


_MAIL = """\
Hello,

someone asked to reset the password of the Penstock account {email}.
To choose a new password, open this link within one hour:

{url}

The link works once. If you did not ask for it, ignore this mail:
your password stays as it is.
"""

_DONE = """\
Hello,

the password of the Penstock account {user.email} was changed with a link
that we sent to this address, and all its sessions were ended.

If this was not you, reset the password again and tell an owner of your
workspace.
"""
