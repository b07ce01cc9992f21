"""HTTP routes for a user's own account. They require a session."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import CurrentUser
from penstock.accounts.own_account.schema import (
    MembershipRecord,
    OpenSessionRecord,
    PasswordChange,
    WorkspaceChoice,
)
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.schema import SessionRecord
from penstock.accounts.session_cookies import session_token
from penstock.base.fair_queue import FairQueue
from penstock.base.networks import client_network
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, address_of
from penstock.http.schema import PageQuery

Me = NamedDependency[CurrentUser]
OwnAccount = NamedDependency[OwnAccountService]


@post(
    "/api/auth/password",
    status_code=204,
    opt=described("Change the password", body=PasswordChange, tag="people"),
)
async def change_password(
    request: AnyRequest,
    current_user: Me,
    own_account: OwnAccount,
    password_work: NamedDependency[FairQueue],
) -> Response[None]:
    """Changes your password and ends your other sessions."""
    form = await read_json(request, PasswordChange)
    current, new = form.current.get_secret_value(), form.new.get_secret_value()
    use_case = partial(
        own_account.change_password,
        current_user,
        session_token(request) or "",
        current,
        new,
    )
    await password_work.run(client_network(address_of(request)), use_case)
    return no_content()


@get(
    "/api/auth/sessions",
    opt=described(
        "Your sessions", answers=OpenSessionRecord, query=PageQuery, listed=True, tag="people"
    ),
)
async def list_sessions(
    request: AnyRequest, current_user: Me, own_account: OwnAccount
) -> Response[bytes]:
    """Lists your sessions in all workspaces, most recently seen first."""
    page = read_query(request, PageQuery).pagination
    sessions = await to_thread.run_sync(
        own_account.sessions, current_user.user, session_token(request) or "", page
    )
    return await answer_list(sessions, OpenSessionRecord.from_session)


@delete("/api/auth/sessions/{session_id:str}", opt=described("End a session", tag="people"))
async def end_session(
    session_id: FromPath[str], current_user: Me, own_account: OwnAccount
) -> Response[None]:
    """Ends one of your own sessions. It can be the current one."""
    await to_thread.run_sync(own_account.end_session, current_user.user, session_id)
    return no_content()


@get(
    "/api/auth/workspaces",
    opt=described(
        "Your workspaces", answers=MembershipRecord, query=PageQuery, listed=True, tag="people"
    ),
)
async def list_workspaces(
    request: AnyRequest, current_user: Me, own_account: OwnAccount
) -> Response[bytes]:
    """Lists your workspaces in the order in which you joined them."""
    page = read_query(request, PageQuery).pagination
    workspaces = await to_thread.run_sync(own_account.workspaces, current_user.user, page)
    return await answer_list(workspaces, MembershipRecord.from_membership)


@post(
    "/api/auth/workspace",
    status_code=200,
    opt=described(
        "Switch to another workspace", body=WorkspaceChoice, answers=SessionRecord, tag="people"
    ),
)
async def switch_workspace(
    request: AnyRequest, current_user: Me, own_account: OwnAccount
) -> Response[bytes]:
    """Switches the session to another workspace, in every tab of the browser."""
    form = await read_json(request, WorkspaceChoice)
    switch = partial(
        own_account.switch, current_user.user, session_token(request) or "", form.workspace_id
    )
    return answer(SessionRecord.from_account(await to_thread.run_sync(switch)))


ROUTES = (change_password, list_sessions, end_session, list_workspaces, switch_workspace)
