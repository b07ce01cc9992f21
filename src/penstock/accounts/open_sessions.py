"""Whether the session that makes a request is still open, inside the transaction of its change."""

from sqlalchemy import Connection

from penstock.accounts import store
from penstock.accounts.model import Caller
from penstock.base.errors import Unauthorized


def require_open_session(db: Connection, by: Caller) -> None:
    """`Unauthorized` when the caller's session has ended since the request was let in.

    For changes that outlast a session, such as new keys: a request that was under way when the
    owner of an account ended its sessions must not leave one behind. Locks the user. API keys pass.
    """
    if by.user_id is None or by.session_id is None:
        return
    if not store.lock_user(db, by.user_id) or not store.session_is_open(db, by.session_id):
        raise Unauthorized("The session has ended. Log in again.", code="session_ended")
