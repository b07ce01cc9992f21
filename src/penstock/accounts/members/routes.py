"""HTTP routes for members. They require a session: an API key does not identify a person."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, patch
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.members.schema import MemberRecord, RemovalQuery, RoleChange
from penstock.accounts.members.service import MemberService
from penstock.accounts.model import CurrentUser
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.read_only import read_changes
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery

Me = NamedDependency[CurrentUser]
Members = NamedDependency[MemberService]


@get(
    "/api/settings/members",
    opt=described("Members", answers=MemberRecord, query=PageQuery, listed=True, tag="people"),
)
async def list_members(request: AnyRequest, current_user: Me, members: Members) -> Response[bytes]:
    """Lists members in the order in which they joined the workspace."""
    page = read_query(request, PageQuery).pagination
    page_members = await to_thread.run_sync(members.members, current_user.workspace.id, page)
    return await answer_list(page_members, MemberRecord.from_member)


@patch(
    "/api/settings/members/{user_id:str}",
    opt=described(
        "Change a role", body=RoleChange, answers=MemberRecord, takes_read_only=True, tag="people"
    ),
)
async def change_role(
    request: AnyRequest, user_id: FromPath[str], current_user: Me, members: Members
) -> Response[bytes]:
    """Changes a member's role. Only owners can do this, and at least one owner must remain.

    Read-only fields (`userId`, `email`, `since`, `secondFactor`) may be sent back with their stored
    values.
    """
    change, read_only = await read_changes(request, RoleChange, MemberRecord)
    member = await to_thread.run_sync(
        members.change_role, current_user, user_id, change.role, read_only
    )
    return answer(MemberRecord.from_member(member))


@delete(
    "/api/settings/members/{user_id:str}",
    opt=described("Remove a member, or leave", query=RemovalQuery, tag="people"),
)
async def remove_member(
    request: AnyRequest, user_id: FromPath[str], current_user: Me, members: Members
) -> Response[None]:
    """Removes a member. Owners can remove any member; members can remove themselves.

    Ends the member's sessions in the workspace. An account without another workspace is deleted.
    The API keys that the member created keep working unless `revokeKeys` is true.
    """
    revoke_keys = read_query(request, RemovalQuery).revoke_keys
    use_case = partial(members.remove, current_user, user_id, revoke_keys=revoke_keys)
    await to_thread.run_sync(use_case)
    return no_content()


ROUTES = (list_members, change_role, remove_member)
