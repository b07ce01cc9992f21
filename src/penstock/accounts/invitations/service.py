"""Use cases for invitations. Without a mail server, owners send the URL themselves."""

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.credentials import hash_secret, new_token
from penstock.accounts.invitations import store, tokens
from penstock.accounts.invitations.model import Invitation
from penstock.accounts.invitations.schema import NewInvitationRecord
from penstock.accounts.mail.model import Mail
from penstock.accounts.mail.names import plain_name
from penstock.accounts.mail.service import Mailer
from penstock.accounts.members import store as members_store
from penstock.accounts.members.service import require_owner
from penstock.accounts.model import CurrentUser, Role, User
from penstock.accounts.open_sessions import require_open_session
from penstock.accounts.own_account import store as own_account_store
from penstock.accounts.own_account.schema import MembershipRecord
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound, RateLimited, RatePolicy
from penstock.base.ids import InvitationId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.patterns import Pattern
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.database import Database
from penstock.metadb.workspaces import hold_workspace
from penstock.settings import DAY_S, Settings

_OPEN_DAYS = 7
_MAILED_TO_ADDRESS = RatePolicy("invitation_mails_address", quota=3, window_s=DAY_S)
_MAILED_BY_WORKSPACE = RatePolicy("invitation_mails_workspace", quota=20, window_s=DAY_S)
_MAILED_IN_TOTAL = RatePolicy("invitation_mails", quota=500, window_s=DAY_S)
"""Limits for emailed invitations, so that nobody can flood a mailbox. Beyond them, owners send the
URL themselves.
"""
_PLAIN_EMAIL = Pattern(r"[a-z0-9._+-]+@[a-z0-9.-]+")
"""Addresses that are safe to show in an email. Other valid addresses could contain a URL, such as
`visit/evil.example/@example.com`.
"""


class InvitationService:
    """Invitations of a workspace. Methods block: call them from a worker thread.

    `invite` and `withdraw` raise `Forbidden` unless the user is an owner of the workspace.
    """

    def __init__(
        self,
        database: Database,
        confirmations: ConfirmationService,
        mailer: Mailer,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._confirmations, self._mailer = confirmations, mailer
        self._mails_to_address = RateLimiter(_MAILED_TO_ADDRESS, clock)
        self._mails_by_workspace = RateLimiter(_MAILED_BY_WORKSPACE, clock)
        self._mails_in_total = RateLimiter(_MAILED_IN_TOTAL, clock)

    def are_mailed(self, actor: User) -> bool:
        """Whether this user's invitations are emailed, as long as the limits allow.

        Users with unconfirmed addresses cannot send emails, because an email would vouch for the
        address.
        """
        return self._mailer.is_set_up and actor.email_confirmed

    def invite(self, actor: CurrentUser, email: str, role: Role) -> NewInvitationRecord:
        """Create an invitation, replacing an open one for the same email address.

        Returns it with its URL, which cannot be read again. Raises `Conflict` if a member has the
        address.
        """
        now_ms, token = self._clock(), new_token()
        invitation = Invitation(
            id=InvitationId(new_id("inv", now_ms)),
            workspace=actor.workspace,
            email=email,
            role=role,
            invited_by=actor.user.email,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + _OPEN_DAYS * DAY_S * 1000,
        )
        with self._database.write() as db:
            hold_workspace(db, actor.workspace.id)
            require_open_session(db, actor.caller)
            require_owner(db, actor)
            if members_store.is_member(db, actor.workspace.id, email):
                raise Conflict(
                    "A member of this workspace already has this email address.",
                    code="already_member",
                )
            store.delete_expired_invitations(db, actor.workspace.id, now_ms)
            mailed_token = token + new_token() if self._may_mail(actor, email) else None
            mailed_hash = hash_secret(mailed_token) if mailed_token else None
            store.add_invitation(db, invitation, hash_secret(token), mailed_hash)
            target = f"{invitation.id} {email}: {role}"
            audit.record(db, actor.caller, Action.MEMBER_INVITED, target, now_ms)
        url = f"{self._settings.base_url}/signup?invitation="
        is_mailed = False
        if mailed_token is not None:
            mail = _mail(invitation, url + mailed_token)
            is_mailed = self._mailer.post(lambda: mail)
        return NewInvitationRecord.from_object(invitation, url=url + token, mailed=is_mailed)

    def _may_mail(self, actor: CurrentUser, email: str) -> bool:
        if not self.are_mailed(actor.user):
            return False
        try:
            self._mails_by_workspace.count(actor.workspace.id)
            self._mails_to_address.count(email)
            self._mails_in_total.count(())
        except RateLimited:
            return False
        return True

    def invitations(self, workspace_id: WorkspaceId, page: Page) -> Listing[Invitation]:
        """List open invitations, newest first."""
        with self._database.read() as db:
            return store.invitations_page(db, workspace_id, self._clock(), page)

    def withdraw(self, actor: CurrentUser, invitation_id: str) -> None:
        with self._database.write() as db:
            if not store.end_invitation(db, actor.workspace.id, invitation_id):
                raise NotFound("There is no such invitation in this workspace.")
            require_owner(db, actor)
            audit.record(
                db, actor.caller, Action.INVITATION_WITHDRAWN, invitation_id, self._clock()
            )

    def read(self, token: str) -> tuple[Invitation, bool]:
        """Return the invitation with this token, and whether its email address has an account."""
        with self._database.read() as db:
            invitation = tokens.find(db, token, None, self._clock())
            return invitation, accounts_store.email_taken(db, invitation.email)

    def accept(self, actor: CurrentUser, token: str) -> MembershipRecord:
        """Add the user to the inviting workspace. The session stays in its current workspace.

        An existing member keeps their role.
        """
        now_ms = self._clock()
        with self._database.write() as db:
            require_open_session(db, actor.caller)
            invitation = tokens.redeem(db, token, actor.user.email, now_ms)
            if invitation.proves_address:
                self._confirmations.accept_proof(db, actor, now_ms)
            if accounts_store.role(db, invitation.workspace.id, actor.user.id) is None:
                joined = CurrentUser(actor.user, invitation.workspace, invitation.role)
                accounts_store.add_member(db, joined, now_ms)
                audit.record(db, joined.caller, Action.MEMBER_JOINED, actor.user.target, now_ms)
            return own_account_store.membership(db, actor.user.id, invitation.workspace.id)


def _mail(invitation: Invitation, url: str) -> Mail:
    """Compose the invitation email. Names that users chose are stripped of anything clickable."""
    name, invited_by = plain_name(invitation.workspace.name), invitation.invited_by
    text = _MAIL.format(
        who=invited_by if _PLAIN_EMAIL.fullmatch(invited_by) else "An owner",
        workspace=f'the workspace\n"{name}"' if name else "a workspace",
        url=url,
    )
    return Mail(invitation.email, "Invitation to Penstock", text)


_MAIL = """\
Hello,

{who} has invited you to {workspace}
on Penstock. To accept, open this link within seven days:

{url}

If you did not expect this, ignore this email.
"""
