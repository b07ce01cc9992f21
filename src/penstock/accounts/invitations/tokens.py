"""Looks up and redeems invitation tokens in the joining user's transaction."""

from sqlalchemy import Connection

from penstock.accounts.credentials import hash_secret
from penstock.accounts.invitations import store
from penstock.accounts.invitations.model import Invitation
from penstock.base.errors import Forbidden, NotFound


def find(db: Connection, token: str, email: str | None, now_ms: int) -> Invitation:
    """Find the open invitation with this token.

    email: the joining user's address; None skips the check. Raises `NotFound` if there is no such
    invitation, and `Forbidden` if it is for another address.
    """
    invitation = store.invitation(db, hash_secret(token), now_ms)
    if invitation is None:
        raise _no_such_invitation()
    if email not in (None, invitation.email):
        raise Forbidden(
            "This invitation is for another email address.", code="invitation_for_another"
        )
    return invitation


def redeem(db: Connection, token: str, email: str, now_ms: int) -> Invitation:
    """Find the invitation and end it, so that nobody can use it again. Raises the same errors as
    `find`.
    """
    invitation = find(db, token, email, now_ms)
    if not store.end_invitation(db, invitation.workspace.id, invitation.id):
        raise _no_such_invitation()
    return invitation


def _no_such_invitation() -> NotFound:
    return NotFound(
        "This invitation does not exist: it was used, replaced, withdrawn or has expired.",
        code="invitation_not_found",
    )
