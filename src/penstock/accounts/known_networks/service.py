"""Use cases for known networks."""

from sqlalchemy import Connection

from penstock.accounts.known_networks import store
from penstock.base.ids import UserAccountId
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox


class KnownNetworks:
    """Networks that users have logged in from. Only keyed hashes of them are stored.

    network: a network in the form of `client_network`.
    """

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database, self._box = database, box

    def remember(self, db: Connection, user_id: UserAccountId, network: str, now_ms: int) -> None:
        """Record a log-in. The caller must have locked the user."""
        store.remember(db, user_id, self._box.fingerprint(network), now_ms)

    def knows(self, email: str, network: str) -> bool:
        """Whether the user with this email address has logged in from the network. Blocks."""
        with self._database.read() as db:
            return store.is_known(db, email, self._box.fingerprint(network))
