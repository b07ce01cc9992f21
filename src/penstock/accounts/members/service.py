"""Use cases for members: listing members, changing roles, removing members."""

from sqlalchemy import Connection

from penstock.accounts import store as accounts_store
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.keys import store as keys_store
from penstock.accounts.keys.service import KeyService
from penstock.accounts.members import store
from penstock.accounts.members.schema import MemberRecord
from penstock.accounts.model import CurrentUser, Role
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Forbidden, NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.http.read_only import ReadOnlyFields
from penstock.metadb.database import Database
from penstock.metadb.workspaces import hold_workspace


class MemberService:
    """Members of a workspace. Methods block: call them from a worker thread.

    Methods raise `NotFound` if the user is not in the workspace, `Forbidden` if the caller is not
    permitted to make the change, and `Conflict` if a change would leave the workspace without an
    owner.
    """

    def __init__(self, database: Database, keys: KeyService, clock: Clock) -> None:
        self._database, self._keys, self._clock = database, keys, clock

    def members(self, workspace_id: WorkspaceId, page: Page) -> Listing[MemberRecord]:
        """List members in the order in which they joined."""
        with self._database.read() as db:
            return store.members(db, workspace_id, page)

    def change_role(
        self, actor: CurrentUser, user_id: str, role: Role, read_only: ReadOnlyFields
    ) -> MemberRecord:
        """Change a member's role.

        read_only: fields that the caller sent back. Raises `Invalid` if any of them has changed.
        """
        with self._database.write() as db:
            member = _lock_member(db, actor, user_id)
            require_owner(db, actor)
            read_only.check(member)
            if role is not Role.OWNER:
                _require_another_owner(db, actor.workspace.id, member)
            store.change_role(db, actor.workspace.id, user_id, role)
            target = f"{user_id} {member.email}: {role}"
            audit.record(db, actor.caller, Action.ROLE_CHANGED, target, self._clock())
        return member.model_copy(update={"role": role})

    def remove(self, actor: CurrentUser, user_id: str, *, revoke_keys: bool = False) -> None:
        """Remove a member and end their sessions in the workspace.

        Deletes the member's account if it has no other workspace. Members may remove themselves.
        revoke_keys: whether to revoke the API keys that the member created in the workspace.
        """
        with self._database.write() as db:
            member = _lock_member(db, actor, user_id)
            if user_id != actor.user.id:
                require_owner(db, actor)
            _require_another_owner(db, actor.workspace.id, member)
            accounts_store.lock_user(db, user_id)
            store.remove_member(db, actor.workspace.id, user_id)
            revoked = []
            if revoke_keys:
                now_ms = self._clock()
                revoked = keys_store.revoke_keys_of(db, user_id, now_ms, actor.workspace.id)
            target = f"{user_id} {member.email}"
            if revoked:
                target += f", {len(revoked)} API keys revoked"
                self._keys.announce(db)
            audit.record(db, actor.caller, Action.MEMBER_REMOVED, target, self._clock())
        self._keys.forget(revoked)


def require_owner(db: Connection, actor: CurrentUser) -> None:
    """Raise `Forbidden` unless the user is currently an owner of the workspace."""
    member = store.member(db, actor.workspace.id, actor.user.id)
    if member is None or member.role is not Role.OWNER:
        raise Forbidden("Only an owner of the workspace may do this.", code="owner_required")


def _lock_member(db: Connection, actor: CurrentUser, user_id: str) -> MemberRecord:
    """Return the member, locked until the transaction ends."""
    hold_workspace(db, actor.workspace.id)
    member = store.member(db, actor.workspace.id, user_id)
    if member is None:
        raise NotFound("There is no such member in this workspace.")
    return member


def _require_another_owner(db: Connection, workspace_id: WorkspaceId, member: MemberRecord) -> None:
    if member.role is Role.OWNER and store.owner_count(db, workspace_id) == 1:
        raise Conflict(
            "A workspace needs an owner. Make another member an owner first.", code="last_owner"
        )
