"""HTTP routes for members. They require a session: an API key does not identify a person."""

from penstock.accounts.members.schema import MemberRecord, RemovalQuery, RoleChange
from penstock.accounts.members.service import MemberService
from penstock.accounts.model import CurrentUser
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope

_ALL = "/api/settings/members"
_ONE = "/api/settings/members/{user_id:str}"


@route("GET", _ALL, "Members", tag="people")
def list_members(
    current_user: CurrentUser, members: MemberService, query: PageQuery
) -> Listing[MemberRecord]:
    """Lists members in the order in which they joined the workspace."""
    return members.members(current_user.workspace.id, query.pagination)


@route("PATCH", _ONE, "Change a role", tag="people")
def change_role(
    current_user: CurrentUser,
    members: MemberService,
    user_id: str,
    change: RoleChange,
    read_only: ReadOnlyFields,
) -> MemberRecord:
    """Changes a member's role. Only owners can do this, and at least one owner must remain.

    Read-only fields (`userId`, `email`, `since`, `secondFactor`) may be sent back with their stored
    values.
    """
    return members.change_role(current_user, user_id, change.role, read_only)


@route("DELETE", _ONE, "Remove a member, or leave", tag="people", scopes=(KeyScope.READ,))
def remove_member(
    current_user: CurrentUser, members: MemberService, user_id: str, query: RemovalQuery
) -> None:
    """Removes a member. Owners can remove any member; members and viewers can remove themselves.

    Ends the member's sessions in the workspace. An account without another workspace is deleted.
    The API keys that the member created keep working unless `revokeKeys` is true.
    """
    members.remove(current_user, user_id, revoke_keys=query.revoke_keys)


ROUTES = (list_members, change_role, remove_member)
