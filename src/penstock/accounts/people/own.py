"""Use cases of a user's own account: the password, open sessions, the workspaces that the user is in."""

from penstock.accounts.attempts import Attempts
from penstock.accounts.credentials import fingerprint, password_hash, password_matches
from penstock.accounts.model import SignedIn, User
from penstock.accounts.people import store
from penstock.accounts.people.model import Joined, OpenSession
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound, RatePolicy
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database

_PASSWORD_POLICY = RatePolicy("password", quota=10, window_s=300)


class OwnAccountService:
    """Its methods block; call them from a worker thread. token: of the session that asks."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._attempts = Attempts(_PASSWORD_POLICY)

    def change_password(self, user: User, token: str, current: str, new: str) -> None:
        """End the user's other sessions as well. `Invalid` when `current` is wrong, `RateLimited` when it was too often."""
        self._attempts.count((user.id,), self._clock())
        with self._database.read() as db:
            kept = store.password_hash(db, user.id)
        if not password_matches(current, kept):
            raise Invalid([Fault("current", "wrong_password", "This is not your current password.")])
        self._attempts.forget((user.id,))
        hashed = password_hash(new)
        with self._database.write() as db:
            store.change_password(db, user.id, hashed)
            store.end_other_sessions(db, user.id, fingerprint(token))

    def sessions(self, user: User, token: str, page: Page) -> Listing[OpenSession]:
        """In all workspaces, the one seen last first."""
        with self._database.read() as db:
            return store.sessions_page(db, user.id, fingerprint(token), self._clock(), page)

    def end_session(self, user: User, session_id: str) -> None:
        with self._database.write() as db:
            if not store.end_session(db, user.id, session_id):
                raise NotFound("You have no such session.")

    def workspaces(self, user: User, page: Page) -> Listing[Joined]:
        """In the order in which they were joined."""
        with self._database.read() as db:
            return store.joined_page(db, user.id, page)

    def switch(self, user: User, token: str, workspace_id: str) -> SignedIn:
        """The session goes on in another workspace of the user's."""
        with self._database.write() as db:
            found = store.joined(db, user.id, workspace_id)
            if found is None:
                raise NotFound("You are in no such workspace.")
            account = SignedIn(user, found.workspace, found.role)
            store.switch_session(db, fingerprint(token), account)
        return account
