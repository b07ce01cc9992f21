"""HTTP routes for a user's own account. They require a session."""

from penstock.accounts.model import CurrentUser
from penstock.accounts.own_account.schema import (
    MembershipRecord,
    OpenSessionRecord,
    PasswordChange,
    WorkspaceChoice,
)
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.password_work import password_route
from penstock.accounts.schema import SessionRecord
from penstock.accounts.session_cookies import session_token
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery


@password_route("POST", "/api/auth/password", "Change the password", tag="people")
def change_password(
    request: AnyRequest,
    current_user: CurrentUser,
    own_account: OwnAccountService,
    form: PasswordChange,
) -> None:
    """Changes your password and ends your other sessions."""
    own_account.change_password(
        current_user,
        session_token(request) or "",
        form.current.get_secret_value(),
        form.new.get_secret_value(),
    )


@route("GET", "/api/auth/sessions", "Your sessions", tag="people")
def list_sessions(
    request: AnyRequest,
    current_user: CurrentUser,
    own_account: OwnAccountService,
    query: PageQuery,
) -> Listing[OpenSessionRecord]:
    """Lists your sessions in all workspaces, most recently seen first."""
    token = session_token(request) or ""
    return own_account.sessions(current_user.user, token, query.pagination)


@route("DELETE", "/api/auth/sessions/{session_id:str}", "End a session", tag="people")
def end_session(current_user: CurrentUser, own_account: OwnAccountService, session_id: str) -> None:
    """Ends one of your own sessions. It can be the current one."""
    own_account.end_session(current_user.user, session_id)


@route("GET", "/api/auth/workspaces", "Your workspaces", tag="people")
def list_workspaces(
    current_user: CurrentUser, own_account: OwnAccountService, query: PageQuery
) -> Listing[MembershipRecord]:
    """Lists your workspaces in the order in which you joined them."""
    return own_account.workspaces(current_user.user, query.pagination)


@route("POST", "/api/auth/workspace", "Switch to another workspace", status=200, tag="people")
def switch_workspace(
    request: AnyRequest,
    current_user: CurrentUser,
    own_account: OwnAccountService,
    form: WorkspaceChoice,
) -> SessionRecord:
    """Switches the session to another workspace, in every tab of the browser."""
    token = session_token(request) or ""
    account = own_account.switch(current_user.user, token, WorkspaceId(form.workspace_id))
    return SessionRecord.from_object(account)


ROUTES = (change_password, list_sessions, end_session, list_workspaces, switch_workspace)
