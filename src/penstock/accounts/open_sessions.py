"""A check that the caller's session is still open, inside the transaction of a change."""

from sqlalchemy import Connection

from penstock.accounts import store
from penstock.accounts.model import Caller
from penstock.base.errors import Unauthorized


def require_open_session(db: Connection, actor: Caller) -> None:
    """Raise `Unauthorized` if the caller's session has ended since the request was accepted.

    Use it for changes that outlast a session, such as new keys: a request in progress must not
    create one after the account's owner has ended all sessions. Locks the user. Callers with an API
    key pass.
    """
    if actor.user_id is None or actor.session_id is None:
        return
    if not store.lock_user(db, actor.user_id) or not store.session_is_open(db, actor.session_id):
        raise Unauthorized("The session has ended. Log in again.", code="session_ended")
