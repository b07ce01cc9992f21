"""HTTP of a user's own account. All of it takes the session."""

from functools import partial
from typing import Any

from anyio import to_thread
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import SESSION_COOKIE
from penstock.accounts.model import SignedIn
from penstock.accounts.people.own import OwnAccountService
from penstock.accounts.people.schema import JoinedRecord, OpenSessionRecord, PasswordChange, WorkspaceChoice
from penstock.accounts.schema import SessionRecord
from penstock.accounts.service import AccountService
from penstock.http.answers import answer, listing, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.schema import PageQuery

AnyRequest = Request[Any, Any, Any]
Me = NamedDependency[SignedIn]
OwnAccount = NamedDependency[OwnAccountService]


@post("/api/auth/password", status_code=204, opt=described("Change the password", body=PasswordChange, tag="people"))
async def change_password(
    request: AnyRequest, signed_in: Me, own_account: OwnAccount, accounts: NamedDependency[AccountService]
) -> Response[None]:
    """The user's other sessions end."""
    form = await read_json(request, PasswordChange)
    current, new = form.current.get_secret_value(), form.new.get_secret_value()
    use_case = partial(own_account.change_password, signed_in.user, request.cookies[SESSION_COOKIE], current, new)
    await to_thread.run_sync(use_case, limiter=accounts.password_work)
    return no_content()


@get("/api/auth/sessions", opt=described("Your sessions", answers=OpenSessionRecord, query=PageQuery, listed=True, tag="people"))
async def list_sessions(request: AnyRequest, signed_in: Me, own_account: OwnAccount) -> Response[bytes]:
    """In all workspaces, the one seen last first."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(own_account.sessions, signed_in.user, request.cookies[SESSION_COOKIE], page)
    return listing(found, OpenSessionRecord.of)


@delete("/api/auth/sessions/{session_id:str}", opt=described("End a session", tag="people"))
async def end_session(session_id: FromPath[str], signed_in: Me, own_account: OwnAccount) -> Response[None]:
    """One of your own; also the one that asks."""
    await to_thread.run_sync(own_account.end_session, signed_in.user, session_id)
    return no_content()


@get("/api/auth/workspaces", opt=described("Your workspaces", answers=JoinedRecord, query=PageQuery, listed=True, tag="people"))
async def list_workspaces(request: AnyRequest, signed_in: Me, own_account: OwnAccount) -> Response[bytes]:
    """In the order in which you joined them."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(own_account.workspaces, signed_in.user, page)
    return listing(found, JoinedRecord.of)


@post(
    "/api/auth/workspace",
    status_code=200,
    opt=described("Go to another workspace", body=WorkspaceChoice, answers=SessionRecord, tag="people"),
)
async def switch_workspace(request: AnyRequest, signed_in: Me, own_account: OwnAccount) -> Response[bytes]:
    """The session goes on there, in every tab of the browser."""
    form = await read_json(request, WorkspaceChoice)
    switch = partial(own_account.switch, signed_in.user, request.cookies[SESSION_COOKIE], form.workspace_id)
    return answer(SessionRecord.of(await to_thread.run_sync(switch)))


ROUTES = (change_password, list_sessions, end_session, list_workspaces, switch_workspace)
