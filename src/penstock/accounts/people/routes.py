"""HTTP of members and invitations. All of it takes the session: a key speaks for a workspace, not for a person."""

from typing import Any

from anyio import to_thread
from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import require_own_page
from penstock.accounts.model import SignedIn
from penstock.accounts.people.invitations import InvitationService
from penstock.accounts.people.members import MemberService
from penstock.accounts.people.schema import (
    InvitationRecord,
    InvitationToken,
    InvitedRecord,
    JoinedRecord,
    MemberRecord,
    NewInvitation,
    NewInvitationRecord,
    RoleChange,
)
from penstock.http.answers import answer, listing, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.schema import PageQuery
from penstock.settings import Settings

AnyRequest = Request[Any, Any, Any]
Me = NamedDependency[SignedIn]
Members = NamedDependency[MemberService]
Invitations = NamedDependency[InvitationService]


@get("/api/settings/members", opt=described("Members", answers=MemberRecord, query=PageQuery, listed=True, tag="people"))
async def list_members(request: AnyRequest, signed_in: Me, members: Members) -> Response[bytes]:
    """In the order in which they joined."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(members.members, signed_in.workspace.id, page)
    return listing(found, MemberRecord.of)


@patch("/api/settings/members/{user_id:str}", opt=described("Change a role", body=RoleChange, answers=MemberRecord, tag="people"))
async def change_role(request: AnyRequest, user_id: FromPath[str], signed_in: Me, members: Members) -> Response[bytes]:
    """For owners. A workspace keeps at least one."""
    form = await read_json(request, RoleChange)
    return answer(MemberRecord.of(await to_thread.run_sync(members.change_role, signed_in, user_id, form.role)))


@delete("/api/settings/members/{user_id:str}", opt=described("Remove a member, or leave", tag="people"))
async def remove_member(user_id: FromPath[str], signed_in: Me, members: Members) -> Response[None]:
    """For owners, and for the member. Their sessions in the workspace end; an account without another workspace is deleted."""
    await to_thread.run_sync(members.remove, signed_in, user_id)
    return no_content()


@post("/api/settings/invitations", opt=described("Invite", body=NewInvitation, answers=NewInvitationRecord, tag="people"))
async def invite(request: AnyRequest, signed_in: Me, invitations: Invitations) -> Response[bytes]:
    """For owners. The answer shows the URL this once; hand it on yourself, for Penstock sends no mail. It holds for seven days."""
    form = await read_json(request, NewInvitation)
    invitation, url = await to_thread.run_sync(invitations.invite, signed_in, form.email, form.role)
    return answer(NewInvitationRecord.with_url(invitation, url), status=201)


@get("/api/settings/invitations", opt=described("Open invitations", answers=InvitationRecord, query=PageQuery, listed=True, tag="people"))
async def list_invitations(request: AnyRequest, signed_in: Me, invitations: Invitations) -> Response[bytes]:
    """Newest first."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(invitations.invitations, signed_in.workspace.id, page)
    return listing(found, InvitationRecord.of)


@delete("/api/settings/invitations/{invitation_id:str}", opt=described("Withdraw an invitation", tag="people"))
async def withdraw_invitation(invitation_id: FromPath[str], signed_in: Me, invitations: Invitations) -> Response[None]:
    """For owners."""
    await to_thread.run_sync(invitations.withdraw, signed_in, invitation_id)
    return no_content()


@post(
    "/api/auth/invitations/read",
    status_code=200,
    opt=described("What an invitation is for", body=InvitationToken, answers=InvitedRecord, open_to_all=True, tag="people"),
)
async def read_invitation(request: AnyRequest, invitations: Invitations, settings: NamedDependency[Settings]) -> Response[bytes]:
    """To whoever has its token. Changes nothing; a POST, so that the token stays out of logs."""
    require_own_page(request, settings)
    form = await read_json(request, InvitationToken)
    invitation, has_account = await to_thread.run_sync(invitations.read, form.token.get_secret_value())
    return answer(InvitedRecord.of(invitation, has_account=has_account))


@post(
    "/api/auth/invitations/accept",
    status_code=200,
    opt=described("Accept an invitation", body=InvitationToken, answers=JoinedRecord, tag="people"),
)
async def accept_invitation(request: AnyRequest, signed_in: Me, invitations: Invitations) -> Response[bytes]:
    """For a user who has an account with the invited e-mail address. The session stays in its workspace."""
    form = await read_json(request, InvitationToken)
    return answer(JoinedRecord.of(await to_thread.run_sync(invitations.accept, signed_in, form.token.get_secret_value())))


ROUTES = (
    list_members,
    change_role,
    remove_member,
    invite,
    list_invitations,
    withdraw_invitation,
    read_invitation,
    accept_invitation,
)
