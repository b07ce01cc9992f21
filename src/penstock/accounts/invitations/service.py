"""Use cases of invitations. Without a mail server, owners pass the URL on themselves."""

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.credentials import hash_secret, new_token
from penstock.accounts.invitations import store, tokens
from penstock.accounts.invitations.model import Invitation
from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.service import Mailer
from penstock.accounts.members import store as members_store
from penstock.accounts.members.service import require_owner
from penstock.accounts.model import CurrentUser, Role
from penstock.accounts.own_account import store as own_account_store
from penstock.accounts.own_account.model import WorkspaceMembership
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, RateLimited, RatePolicy, Unauthorized
from penstock.base.ids import InvitationId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings

_OPEN_DAYS = 7
_MAILED_TO_ADDRESS = RatePolicy("invitation_mails_address", quota=3, window_s=DAY_S)
_MAILED_BY_WORKSPACE = RatePolicy("invitation_mails_workspace", quota=50, window_s=DAY_S)
"""Beyond them, owners pass the URL on themselves: nobody may flood a mailbox through us."""


class InvitationService:
    """Invitations of a workspace. Methods block: call them from a worker thread.

    `Forbidden` unless the user is an owner of the workspace.
    """

    def __init__(
        self, database: Database, mailer: Mailer, settings: Settings, clock: Clock
    ) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._mailer = mailer
        self._of_address = RateLimiter(_MAILED_TO_ADDRESS)
        self._of_workspace = RateLimiter(_MAILED_BY_WORKSPACE)

    @property
    def are_mailed(self) -> bool:
        return self._mailer.is_set_up

    def invite(self, by: CurrentUser, email: str, role: Role) -> tuple[Invitation, str, bool]:
        """A new invitation, its URL, which cannot be read again, and whether it is mailed.

        It replaces an open one for the same email address. `Conflict` when a member has the
        address.
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
            members_store.lock_members(db, by.workspace.id)
            require_owner(db, by)
            if members_store.is_member(db, by.workspace.id, email):
                raise Conflict(
                    "A member of this workspace already has this email address.",
                    code="already_member",
                )
            store.delete_expired_invitations(db, by.workspace.id, now_ms)
            store.add_invitation(db, invitation, hash_secret(token))
            target = f"{invitation.id} {email}: {role}"
            audit.record(db, by.caller, Action.MEMBER_INVITED, target, now_ms)
        url = f"{self._settings.base_url}/signup?invitation={token}"
        mail = Mail(email, "Invitation to Penstock", _MAIL.format(invitation=invitation, url=url))
        return invitation, url, self._may_mail(by, email) and self._mailer.post(lambda: mail)

    def _may_mail(self, by: CurrentUser, email: str) -> bool:
        try:
            self._of_workspace.count(by.workspace.id, self._clock())
            self._of_address.count(email, self._clock())
        except RateLimited:
            return False
        return True

    def invitations(self, workspace_id: WorkspaceId, page: Page) -> Listing[Invitation]:
        """Open invitations, newest first."""
        with self._database.read() as db:
            return store.invitations_page(db, workspace_id, self._clock(), page)

    def withdraw(self, by: CurrentUser, invitation_id: str) -> None:
        with self._database.write() as db:
            if not store.end_invitation(db, by.workspace.id, invitation_id):
                raise NotFound("There is no such invitation in this workspace.")
            require_owner(db, by)
            audit.record(db, by.caller, Action.INVITATION_WITHDRAWN, invitation_id, self._clock())

    def read(self, token: str) -> tuple[Invitation, bool]:
        """The invitation with this token, and whether its email address has an account."""
        with self._database.read() as db:
            invitation = tokens.find(db, token, None, self._clock())
            return invitation, accounts_store.email_taken(db, invitation.email)

    def accept(self, by: CurrentUser, token: str) -> WorkspaceMembership:
        """Add the user to the inviting workspace; the session stays in its own.

        A user who is a member already keeps their role.
        """
        now_ms = self._clock()
        with self._database.write() as db:
            if not accounts_store.lock_user(db, by.user.id):
                raise Unauthorized("This account no longer exists.", code="session_ended")
            invitation = tokens.redeem(db, token, by.user.email, now_ms)
            membership = own_account_store.membership(db, by.user.id, invitation.workspace.id)
            if membership is None:
                joined = CurrentUser(by.user, invitation.workspace, invitation.role)
                accounts_store.add_member(db, joined, now_ms)
                target = f"{by.user.id} {by.user.email}"
                audit.record(db, joined.caller, Action.MEMBER_JOINED, target, now_ms)
        return membership or WorkspaceMembership(invitation.workspace, invitation.role, now_ms)


_MAIL = """\
Hello,

{invitation.invited_by} invites you to the workspace
"{invitation.workspace.name}" on Penstock. To accept, open this link within
seven days:

{url}

If you do not know what this is about, ignore this mail.
"""
