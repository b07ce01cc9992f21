"""Using an invitation, as part of the transaction of whoever joins by it."""

from sqlalchemy import Connection

from penstock.accounts.credentials import fingerprint
from penstock.accounts.people import store
from penstock.accounts.people.model import Invitation
from penstock.base.errors import Forbidden, NotFound


def find(db: Connection, token: str, email: str | None, now_ms: int) -> Invitation:
    """The open invitation of a token; `NotFound` without one, `Forbidden` when it invites another address. email: None asks for any."""
    found = store.invitation(db, fingerprint(token), now_ms)
    if found is None:
        raise _no_such_invitation()
    if email not in (None, found.email):
        raise Forbidden("The invitation is for another e-mail address.", code="invitation_for_another")
    return found


def take(db: Connection, token: str, email: str, now_ms: int) -> Invitation:
    """As `find`, and nobody can use it again."""
    found = find(db, token, email, now_ms)
    if not store.end_invitation(db, found.workspace.id, found.id):
        raise _no_such_invitation()
    return found


def _no_such_invitation() -> NotFound:
    return NotFound("There is no such invitation: it was used, replaced, withdrawn, or has expired.", code="invitation_not_found")
