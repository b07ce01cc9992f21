"""Use cases for confirmations: emailed links, and giving an account to the owner of its address.

Sign-up does not verify the address, so anybody can create an account with somebody else's address.
A link only works with a session of the same account: opening the email alone does not make a
stranger's account trusted. When people prove that they own the address of another person's account,
they get the account, and its previous holder loses it.
"""

from functools import partial

from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.confirmations import store
from penstock.accounts.credentials import hash_secret, new_token, unusable_password_hash
from penstock.accounts.keys import store as keys_store
from penstock.accounts.keys.service import KeyService
from penstock.accounts.known_networks import store as networks_store
from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.service import Mailer
from penstock.accounts.model import Caller, CurrentUser, User
from penstock.accounts.open_sessions import require_open_session
from penstock.accounts.own_account import store as own_account_store
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, QueueFull, RateLimited, RatePolicy
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.metadb.tables import email_confirmations
from penstock.settings import DAY_S, Settings

_MAILS_TO_ADDRESS = RatePolicy(
    "confirmation_mails_address", quota=5, window_s=DAY_S, counted="requests"
)
_MAILS_FROM_NETWORK = RatePolicy(
    "confirmation_mails_network", quota=20, window_s=DAY_S, counted="requests"
)
"""Beyond these limits, sign-ups work but send no mail, so that nobody can flood mailboxes."""


class ConfirmationService:
    """Confirms email addresses. Methods block unless they say otherwise."""

    def __init__(
        self,
        database: Database,
        keys: KeyService,
        mailer: Mailer,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._keys, self._mailer = database, keys, mailer
        self._settings, self._clock = settings, clock
        self._mails_to_address = RateLimiter(_MAILS_TO_ADDRESS, clock)
        self._mails_from_network = RateLimiter(_MAILS_FROM_NETWORK, clock)

    def needs_confirmation(self, user: User) -> bool:
        """Whether the user's address is unconfirmed and can be confirmed. Never blocks."""
        return self._mailer.is_set_up and not user.email_confirmed

    def send(self, user: User, network: str) -> None:
        """Send a confirmation email to the user. Never blocks.

        Raises `RateLimited`, `QueueFull`, or `Conflict` if there is no mail server or the address
        is already confirmed.
        """
        if not self._mailer.is_set_up:
            raise Conflict("Email is not set up on this server.", code="mail_not_set_up")
        if user.email_confirmed:
            raise Conflict("Your address is already confirmed.", code="email_confirmed")
        self._mails_from_network.count(network)
        self._mails_to_address.count(user.email)
        if not self._mailer.post(partial(self._mail_with_link, user)):
            raise QueueFull("Too many emails are waiting. Try again later.", retry_after_s=60)

    def send_after_sign_up(self, user: User, network: str) -> None:
        """Like `send`, but does nothing if a limit is reached or no email is needed.

        The user can request another email later.
        """
        if self.needs_confirmation(user):
            try:
                self.send(user, network)
            except (RateLimited, QueueFull):
                return

    def _mail_with_link(self, user: User) -> Mail:
        token, now_ms = new_token(), self._clock()
        with self._database.write() as db:
            accounts_store.add_token(db, email_confirmations, token, user.id, now_ms, DAY_S)
        url = f"{self._settings.base_url}/confirm-email?token={token}"
        return Mail(user.email, "Confirm your address for Penstock", _MAIL.format(url=url))

    def is_valid(self, user: User, token: str) -> bool:
        """Whether `confirm` would accept the token."""
        with self._database.read() as db:
            return store.is_valid(db, hash_secret(token), user.id, self._clock())

    def confirm(self, actor: CurrentUser, token: str) -> None:
        """Confirm the user's address with the token from the email.

        Raises `NotFound` if the token is unknown, used, expired or belongs to another user.
        """
        now_ms = self._clock()
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            if not store.is_valid(db, hash_secret(token), actor.user.id, now_ms):
                raise NotFound(
                    "This link has already been used, is older than a day, or is for another "
                    "account.",
                    code="confirmation_not_found",
                )
            store.end_confirmations(db, actor.user.id)
            self.accept_proof(db, actor, now_ms)

    def accept_proof(self, db: Connection, account: CurrentUser, now_ms: int) -> None:
        """Record that the current holder of the account has proven the address. They keep the
        account.
        """
        if not account.user.email_confirmed:
            accounts_store.confirm_email(db, account.user.id, now_ms)
            audit.record(db, account.caller, Action.EMAIL_CONFIRMED, account.user.target, now_ms)

    def reclaim(self, db: Connection, account: CurrentUser, proof: str, now_ms: int) -> list[bytes]:
        """Give an account with an unconfirmed address to the person who just proved the address.

        The previous holder may have been a stranger. Their sessions end, and the password, all
        tokens, their invitations and the API keys they created in the user's workspaces become
        invalid. The caller must have locked the user, and is responsible for the second factor.
        proof: the kind of proof, for each workspace's audit log. Returns the hashes of the revoked
        keys; pass them to `tell_reclaimed` after the commit.
        """
        user = account.user
        sessions = accounts_store.end_sessions(db, user.id)
        own_account_store.change_password(db, user.id, unusable_password_hash())
        accounts_store.end_resets(db, user.id)
        store.end_confirmations(db, user.id)
        networks_store.forget_all(db, user.id)
        accounts_store.end_invitations_by(db, user)
        revoked = keys_store.revoke_keys_of(db, user.id, now_ms)
        if revoked:
            self._keys.announce(db)
        accounts_store.confirm_email(db, user.id, now_ms)
        target = (
            f"{user.id} {user.email}: first {proof} of an address that was never confirmed; "
            f"sessions ended: {sessions}, API keys revoked: {len(revoked)}, password void"
        )
        all_workspaces = Page(1, MAX_PAGE_SIZE)
        for membership in own_account_store.memberships_page(db, user.id, all_workspaces).data:
            workspace_id = WorkspaceId(membership.workspace.id)
            actor = Caller(workspace_id, user_id=user.id, name=user.email)
            audit.record(db, actor, Action.ACCOUNT_RECLAIMED, target, now_ms)
        return revoked

    def tell_reclaimed(self, user: User, revoked: list[bytes]) -> None:
        """Reject the revoked keys and email the user, once `reclaim` is committed. Never blocks."""
        self._keys.forget(revoked)
        mail = Mail(user.email, "Your Penstock account was secured", _RECLAIMED)
        self._mailer.post(lambda: mail)


_MAIL = """\
Hello,

this address was used to create a Penstock account. To confirm that the
address is yours, open this link within 24 hours and log in:

{url}

The link works once. If you did not create the account, ignore this email:
without your confirmation, nobody trusts that account with your address.
"""

_RECLAIMED = """\
Hello,

you have confirmed that this Penstock account is yours. Its address had
never been confirmed before, so somebody else may have created it. Penstock
ended all its sessions and revoked its old password, API keys and
invitations.

Before you use its workspaces, check their members, websites and audit log.
If your own API keys were revoked too, create new ones.
"""
