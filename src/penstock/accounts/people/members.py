"""Use cases of members: who is in a workspace, in which role."""

from dataclasses import replace

from sqlalchemy import Connection

from penstock.accounts.model import Role, SignedIn
from penstock.accounts.people import store
from penstock.accounts.people.model import Member
from penstock.base.errors import Conflict, Forbidden, NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.database import Database


class MemberService:
    """Its methods block; call them from a worker thread.

    `NotFound` for a user who is not in the workspace, `Forbidden` for a member who may not do this. A workspace keeps an owner: `Conflict`
    for what would leave it without one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def members(self, workspace_id: WorkspaceId, page: Page) -> Listing[Member]:
        """In the order in which they joined."""
        with self._database.read() as db:
            return store.members(db, workspace_id, page)

    def change_role(self, by: SignedIn, user_id: str, role: Role) -> Member:
        with self._database.write() as db:
            member = _held(db, by, user_id)
            require_owner(db, by)
            if role is not Role.OWNER:
                _keep_an_owner(db, by.workspace.id, member)
            store.change_role(db, by.workspace.id, user_id, role)
        return replace(member, role=role)

    def remove(self, by: SignedIn, user_id: str) -> None:
        """The user's sessions in the workspace end. A user who is in no other workspace has no account any more."""
        with self._database.write() as db:
            member = _held(db, by, user_id)
            if user_id != by.user.id:
                require_owner(db, by)
            _keep_an_owner(db, by.workspace.id, member)
            store.hold_user(db, user_id)
            store.remove_member(db, by.workspace.id, user_id)


def require_owner(db: Connection, by: SignedIn) -> None:
    """`Forbidden` unless the signed-in user is an owner of the workspace now."""
    member = store.member(db, by.workspace.id, by.user.id)
    if member is None or member.role is not Role.OWNER:
        raise Forbidden("Only an owner of the workspace may do this.", code="owner_required")


def _held(db: Connection, by: SignedIn, user_id: str) -> Member:
    """The member, which nobody else changes until the transaction ends."""
    store.hold_members(db, by.workspace.id)
    member = store.member(db, by.workspace.id, user_id)
    if member is None:
        raise NotFound("There is no such member in this workspace.")
    return member


def _keep_an_owner(db: Connection, workspace_id: WorkspaceId, without: Member) -> None:
    if without.role is Role.OWNER and store.owners(db, workspace_id) == 1:
        raise Conflict("A workspace needs an owner; make another member one first.", code="last_owner")
