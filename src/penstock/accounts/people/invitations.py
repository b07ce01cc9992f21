"""Use cases of invitations. Penstock sends no mail: whoever invites hands the URL on."""

from penstock.accounts import store as accounts_store
from penstock.accounts.credentials import fingerprint, new_token
from penstock.accounts.model import Role, SignedIn
from penstock.accounts.people import invited, store
from penstock.accounts.people.members import require_owner
from penstock.accounts.people.model import Invitation, Joined
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, Unauthorized
from penstock.base.ids import InvitationId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

_OPEN_DAYS = 7


class InvitationService:
    """Its methods block; call them from a worker thread. `Forbidden` for a member who may not do this."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock

    def invite(self, by: SignedIn, email: str, role: Role) -> tuple[Invitation, str]:
        """A new invitation, and its URL, which cannot be had again. An earlier one to the same e-mail address ends.

        `Conflict` when a member has the address.
        """
        now_ms, token = self._clock(), new_token()
        invitation = Invitation(
            id=InvitationId(new_id("inv", now_ms)),
            workspace=by.workspace,
            email=email,
            role=role,
            invited_by=by.user.email,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + _OPEN_DAYS * DAY_S * 1000,
        )
        with self._database.write() as db:
            store.hold_members(db, by.workspace.id)
            require_owner(db, by)
            if store.is_member(db, by.workspace.id, email):
                raise Conflict("A member of the workspace has this e-mail address.", code="already_member")
            store.drop_ended_invitations(db, by.workspace.id, now_ms)
            store.add_invitation(db, invitation, fingerprint(token))
        return invitation, f"{self._settings.base_url}/signup?invitation={token}"

    def invitations(self, workspace_id: WorkspaceId, page: Page) -> Listing[Invitation]:
        """The open ones, newest first."""
        with self._database.read() as db:
            return store.invitations_page(db, workspace_id, self._clock(), page)

    def withdraw(self, by: SignedIn, invitation_id: str) -> None:
        with self._database.write() as db:
            if not store.end_invitation(db, by.workspace.id, invitation_id):
                raise NotFound("There is no such invitation in this workspace.")
            require_owner(db, by)

    def read(self, token: str) -> tuple[Invitation, bool]:
        """What an invitation is for, to whoever has its token; and whether its e-mail address has an account."""
        with self._database.read() as db:
            found = invited.find(db, token, None, self._clock())
            return found, accounts_store.email_taken(db, found.email)

    def accept(self, by: SignedIn, token: str) -> Joined:
        """The user joins the workspace that invites; the session stays where it is. Who is in it already stays as they are."""
        now_ms = self._clock()
        with self._database.write() as db:
            if not store.hold_user(db, by.user.id):
                raise Unauthorized("The account is gone.", code="session_ended")
            invitation = invited.take(db, token, by.user.email, now_ms)
            known = store.joined(db, by.user.id, invitation.workspace.id)
            if known is None:
                accounts_store.add_member(db, SignedIn(by.user, invitation.workspace, invitation.role), now_ms)
        return known or Joined(invitation.workspace, invitation.role, now_ms)
