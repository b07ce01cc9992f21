"""Use cases for forgotten passwords.

Neither responses nor timing reveal whether an email address has an account: the worker that sends
emails looks it up.
"""

from functools import partial

import structlog
from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.credentials import hash_secret, new_token, password_hash
from penstock.accounts.known_networks.service import KnownNetworks
from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.service import Mailer
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.own_account import store as own_account_store
from penstock.accounts.password_resets import store
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, QueueFull, RateLimited, RatePolicy
from penstock.base.networks import client_network
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.metadb.tables import password_resets
from penstock.settings import DAY_S, Settings

log = structlog.get_logger()

_VALID_S = 3600
_REQUESTS = RatePolicy("password_reset", quota=3, window_s=3600, counted="requests")
"""Limit on requests for one email address from one network, whether or not it has an account."""
_REQUESTS_OF_NETWORK = RatePolicy(
    "password_reset_network", quota=20, window_s=3600, counted="requests"
)
_MAILS = RatePolicy("password_reset_mails", quota=10, window_s=DAY_S)
"""Limit on emails to one user.

Requests from networks that the user has logged in from have a separate limit, so that strangers
cannot exhaust the user's emails.
"""


class PasswordResetService:
    """Resets passwords with an emailed link."""

    def __init__(
        self,
        database: Database,
        confirmations: ConfirmationService,
        networks: KnownNetworks,
        mailer: Mailer,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._confirmations, self._mailer = database, confirmations, mailer
        self._networks, self._settings, self._clock = networks, settings, clock
        self._requests = RateLimiter(_REQUESTS, clock)
        self._requests_of_network = RateLimiter(_REQUESTS_OF_NETWORK, clock)
        self._mails = RateLimiter(_MAILS, clock)

    @property
    def is_set_up(self) -> bool:
        """Whether this installation can send emails."""
        return self._mailer.is_set_up

    def request(self, email: str, address: str) -> None:
        """Email a link to the user with this address, if there is one. Never blocks.

        address: IP address of the client. Raises `RateLimited`, `QueueFull`, or `Conflict` if there
        is no mail server.
        """
        if not self._mailer.is_set_up:
            raise Conflict(
                "Email is not set up. The service operator can run `penstock reset-password`.",
                code="mail_not_set_up",
            )
        network = client_network(address)
        self._requests_of_network.count(network)
        self._requests.count((email, network))
        if not self._mailer.post(partial(self._mail_with_link, email, network)):
            raise QueueFull("Too many emails are waiting. Try again later.", retry_after_s=60)

    def _mail_with_link(self, email: str, network: str) -> Mail | None:
        """Compose the email. Returns None if the address has no account or has received too many
        emails in a day.
        """
        is_known, now_ms = self._networks.knows(email, network), self._clock()
        with self._database.write() as db:
            match = accounts_store.account_by_email(db, email)
            if match is None:
                return None
            account, _ = match
            try:
                self._mails.count((account.user.id, is_known))
            except RateLimited:
                log.warning("password_reset_not_mailed", user_id=account.user.id)
                return None
            url = reset_url(db, self._settings, account, now_ms, is_mailed=True)
            target = f"{account.user.id} {email}"
            audit.record(db, account.caller, Action.PASSWORD_RESET_REQUESTED, target, now_ms)
        consequence = "" if account.user.email_confirmed else _TAKES_OVER
        text = _MAIL.format(url=url, consequence=consequence)
        return Mail(email, "Reset your Penstock password", text)

    def reset(self, token: str, password: str) -> None:
        """Set the password and end all sessions of the user. Blocks, because it hashes a password.

        An emailed token proves the address: if it was unconfirmed, the account is reclaimed. Raises
        `NotFound` if the token is unknown, used or expired.
        """
        token_hash = hash_secret(token)
        with self._database.read() as db:
            _account_of_reset(db, token_hash, self._clock())
        new_hash = password_hash(password)
        with self._database.write() as db:
            user = _account_of_reset(db, token_hash, self._clock())[0].user
            accounts_store.lock_user(db, user.id)
            # Check again: another request may have used the token while this one waited for the
            # lock.
            account, is_mailed = _account_of_reset(db, token_hash, self._clock())
            is_reclaimed = is_mailed and not account.user.email_confirmed
            if is_reclaimed:
                revoked = self._confirmations.reclaim(db, account, "password reset", self._clock())
            own_account_store.change_password(db, user.id, new_hash)
            accounts_store.end_sessions(db, user.id)
            accounts_store.end_resets(db, user.id)
            audit.record(db, account.caller, Action.PASSWORD_RESET, user.target, self._clock())
        done = Mail(user.email, "Your Penstock password was changed", _DONE)
        self._mailer.post(lambda: done)
        if is_reclaimed:
            self._confirmations.tell_reclaimed(user, revoked)


def operator_reset_url(
    database: Database, settings: Settings, email: str, now_ms: int
) -> str | None:
    """Create a URL where the user can set a new password; None if the address has no account."""
    with database.write() as db:
        match = accounts_store.account_by_email(db, email.strip().lower())
        if match is None:
            return None
        account, _ = match
        actor, target = Caller(account.workspace.id, name="operator"), f"{account.user.id} {email}"
        audit.record(db, actor, Action.PASSWORD_RESET_REQUESTED, target, now_ms)
        return reset_url(db, settings, account, now_ms, is_mailed=False)


def reset_url(
    db: Connection, settings: Settings, account: CurrentUser, now_ms: int, *, is_mailed: bool
) -> str:
    """Create a URL for setting a new password, valid for an hour.

    The token comes after `#`: browsers do not send it, so no log contains it. is_mailed: whether
    only the user gets the URL, by email.
    """
    token, user_id = new_token(), account.user.id
    accounts_store.add_token(
        db, password_resets, token, user_id, now_ms, _VALID_S, is_mailed=is_mailed
    )
    return f"{settings.base_url}/reset-password/new#{token}"


def _account_of_reset(db: Connection, token_hash: bytes, now_ms: int) -> tuple[CurrentUser, bool]:
    """Return the account that the token belongs to, and whether the token was emailed to the
    user.
    """
    reset = store.reset(db, token_hash, now_ms)
    match = accounts_store.account_by_email(db, reset[0]) if reset is not None else None
    if reset is None or match is None:
        raise NotFound(
            "This link has already been used or is older than an hour. Request a new one.",
            code="reset_not_found",
        )
    return match[0], reset[1]


_MAIL = """\
Hello,

someone asked to reset the password of your Penstock account. To choose a
new password, open this link within one hour:

{url}
{consequence}
The link works once. If you did not request it, ignore this email:
your password will not change.
"""

_TAKES_OVER = """
The address of this account was never confirmed, so somebody else may have
created the account. The new password makes it yours alone: API keys that
it created and its pending invitations stop working.
"""

_DONE = """\
Hello,

the password of your Penstock account was changed with a link that we sent
to this address, and all its sessions were ended.

If this was not you, reset the password again and tell an owner of your
workspace.
"""
