"""Use cases for a user's own account: password, open sessions, workspaces."""

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import hash_secret, password_hash, password_matches
from penstock.accounts.model import CurrentUser, User
from penstock.accounts.open_sessions import require_open_session
from penstock.accounts.own_account import store
from penstock.accounts.own_account.schema import MembershipRecord, OpenSessionRecord
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound, RatePolicy
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database

_PASSWORD_POLICY = RatePolicy("password", quota=10, window_s=300)


class OwnAccountService:
    """A user's own account. Methods block: call them from a worker thread.

    token: token of the session that makes the request.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._attempts = RateLimiter(_PASSWORD_POLICY, clock)

    def change_password(self, actor: CurrentUser, token: str, current: str, new: str) -> None:
        """Change the password and end the user's other sessions.

        Raises `Invalid` if `current` is wrong, and `RateLimited` after too many attempts.
        """
        user = actor.user
        stored_hash = self.require_password(user, current, "current")
        new_hash = password_hash(new)
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            if store.password_hash(db, user.id) != stored_hash:
                raise _wrong_password("current")
            store.change_password(db, user.id, new_hash)
            store.end_other_sessions(db, user.id, hash_secret(token))
            store.end_pending_log_ins(db, user.id)
            accounts_store.end_resets(db, user.id)
            audit.record(db, actor.caller, Action.PASSWORD_CHANGED, user.target, self._clock())

    def require_password(self, user: User, password: str, field: str) -> str:
        """Check the user's password and return its stored hash. Takes as long as hashing a password
        does.

        Raises `Invalid` for this field if the password is wrong, and `RateLimited` after too many
        attempts.
        """
        self._attempts.count((user.id,))
        with self._database.read() as db:
            stored_hash = store.password_hash(db, user.id)
        if stored_hash is None or not password_matches(password, stored_hash):
            raise _wrong_password(field)
        self._attempts.forget((user.id,))
        return stored_hash

    def sessions(self, user: User, token: str, page: Page) -> Listing[OpenSessionRecord]:
        """List open sessions in all workspaces, most recently seen first."""
        with self._database.read() as db:
            return store.sessions_page(db, user.id, hash_secret(token), self._clock(), page)

    def end_session(self, user: User, session_id: str) -> None:
        with self._database.write() as db:
            if not store.end_session(db, user.id, session_id):
                raise NotFound("This session does not exist or has already ended.")

    def workspaces(self, user: User, page: Page) -> Listing[MembershipRecord]:
        """List the user's workspaces in the order in which they joined them."""
        with self._database.read() as db:
            return store.memberships_page(db, user.id, page)

    def switch(self, user: User, token: str, workspace_id: WorkspaceId) -> CurrentUser:
        """Move the session to another workspace of the user."""
        with self._database.write() as db:
            workspace = accounts_store.workspace(db, workspace_id)
            role = accounts_store.role(db, workspace_id, user.id)
            if workspace is None or role is None:
                raise NotFound("This workspace does not exist, or you are not a member of it.")
            account = CurrentUser(user, workspace, role)
            store.switch_session(db, hash_secret(token), account)
        return account


def _wrong_password(field: str) -> Invalid:
    return Invalid([Fault(field, "wrong_password", "This is not your current password.")])
