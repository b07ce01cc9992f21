"""HTTP routes of users, sessions, API keys and websites."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import (
    SESSION_COOKIE,
    client_network,
    is_local_client,
    require_same_origin,
)
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.schema import (
    KeyRecord,
    LogIn,
    NewKey,
    NewKeyRecord,
    NewWebsite,
    SessionRecord,
    SignUp,
    WebsiteChanges,
    WebsiteRecord,
)
from penstock.accounts.service import AccountService
from penstock.http.answers import answer, listing, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.read_only import read_changes
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S, Settings

_COOKIE_DAYS = 400
"""Longest lifetime that browsers allow. The server ends sessions, so cookies need no renewal."""


def _with_session(response: Response[bytes], token: str, settings: Settings) -> Response[bytes]:
    response.cookies.append(
        Cookie(
            key=SESSION_COOKIE,
            value=token,
            path="/",
            httponly=True,
            samesite="lax",
            secure=settings.base_url.startswith("https://"),
            max_age=_COOKIE_DAYS * DAY_S,
        )
    )
    return response


# Users and sessions


@post(
    "/api/auth/signup",
    opt=described("Sign up", body=SignUp, answers=SessionRecord, open_to_all=True, tag="accounts"),
)
async def sign_up(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Create an account.

    The first one requires a request from this machine or the setup token in `X-Setup-Token`; later
    ones require open sign-up or an invitation.
    """
    require_same_origin(request, settings)
    form = await read_json(request, SignUp)
    use_case = partial(
        accounts.sign_up,
        form,
        is_local_client=is_local_client(request),
        setup_token=request.headers.get("x-setup-token"),
    )
    token, account = await accounts.password_work.run(client_network(request), use_case)
    return _with_session(answer(SessionRecord.of(account), status=201), token, settings)


@post(
    "/api/auth/login",
    status_code=200,
    opt=described("Log in", body=LogIn, answers=SessionRecord, open_to_all=True, tag="accounts"),
)
async def log_in(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    require_same_origin(request, settings)
    form = await read_json(request, LogIn)
    address = request.client.host if request.client else ""
    use_case = partial(accounts.log_in, form.email, form.password.get_secret_value(), address)
    token, account = await accounts.password_work.run(client_network(request), use_case)
    return _with_session(answer(SessionRecord.of(account)), token, settings)


@post(
    "/api/auth/logout", status_code=204, opt=described("Log out", open_to_all=True, tag="accounts")
)
async def log_out(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[None]:
    """End the session of the cookie, if there is one."""
    require_same_origin(request, settings)
    if token := request.cookies.get(SESSION_COOKIE):
        await to_thread.run_sync(accounts.log_out, token)
    response = no_content()
    response.delete_cookie(SESSION_COOKIE)
    return response


@get("/api/auth/session", opt=described("Current session", answers=SessionRecord, tag="accounts"))
async def session(current_user: NamedDependency[CurrentUser]) -> Response[bytes]:
    return answer(SessionRecord.of(current_user))


# API keys


@post(
    "/api/settings/api-keys",
    opt=described("Create an API key", body=NewKey, answers=NewKeyRecord, tag="accounts"),
)
async def create_key(
    request: AnyRequest,
    current_user: NamedDependency[CurrentUser],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    """The response shows the key once. Requires a session: an API key cannot create another."""
    form = await read_json(request, NewKey)
    key, secret = await to_thread.run_sync(
        accounts.create_key, current_user.workspace.id, form.name
    )
    return answer(NewKeyRecord.of(key, secret), status=201)


@get(
    "/api/settings/api-keys",
    opt=described("API keys", answers=KeyRecord, query=PageQuery, listed=True, tag="accounts"),
)
async def list_keys(
    request: AnyRequest,
    current_user: NamedDependency[CurrentUser],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    """Newest first, including revoked keys."""
    page = read_query(request, PageQuery).asked
    keys = await to_thread.run_sync(accounts.keys, current_user.workspace.id, page)
    return listing(keys, KeyRecord.of)


@delete("/api/settings/api-keys/{key_id:str}", opt=described("Revoke an API key", tag="accounts"))
async def revoke_key(
    key_id: FromPath[str],
    current_user: NamedDependency[CurrentUser],
    accounts: NamedDependency[AccountService],
) -> Response[None]:
    await to_thread.run_sync(accounts.revoke_key, current_user.workspace.id, key_id)
    return no_content()


# Websites


@post(
    "/api/settings/websites",
    opt=described(
        "Add a website or a mobile app", body=NewWebsite, answers=WebsiteRecord, tag="accounts"
    ),
)
async def create_website(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    form = await read_json(request, NewWebsite)
    website = await to_thread.run_sync(accounts.create_website, caller.workspace_id, form)
    return answer(WebsiteRecord.of(website), status=201)


@get(
    "/api/settings/websites",
    opt=described(
        "Websites and mobile apps",
        answers=WebsiteRecord,
        query=PageQuery,
        listed=True,
        tag="accounts",
    ),
)
async def list_websites(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    """Oldest first."""
    page = read_query(request, PageQuery).asked
    websites = await to_thread.run_sync(accounts.websites_page, caller.workspace_id, page)
    return listing(websites, WebsiteRecord.of)


@get(
    "/api/settings/websites/{website_id:str}",
    opt=described("A website", answers=WebsiteRecord, tag="accounts"),
)
async def read_website(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    return answer(
        WebsiteRecord.of(
            await to_thread.run_sync(accounts.website, caller.workspace_id, website_id)
        )
    )


@patch(
    "/api/settings/websites/{website_id:str}",
    opt=described("Change a website", body=WebsiteChanges, answers=WebsiteRecord, tag="accounts"),
)
async def change_website(
    request: AnyRequest,
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    accounts: NamedDependency[AccountService],
) -> Response[bytes]:
    """Omitted fields keep their value; null clears a field.

    Read-only fields (`id`, `kind`, ...) may be sent back with their stored values.
    """
    changes, read_only = await read_changes(request, WebsiteChanges, WebsiteRecord)
    stored = await to_thread.run_sync(accounts.website, caller.workspace_id, website_id)
    read_only.check(WebsiteRecord.of(stored))
    website = await to_thread.run_sync(
        accounts.change_website, caller.workspace_id, website_id, changes
    )
    return answer(WebsiteRecord.of(website))


@delete(
    "/api/settings/websites/{website_id:str}", opt=described("Delete a website", tag="accounts")
)
async def delete_website(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    accounts: NamedDependency[AccountService],
) -> Response[None]:
    """The website accepts no more events. Its stored events are kept."""
    await to_thread.run_sync(accounts.delete_website, caller.workspace_id, website_id)
    return no_content()


ROUTES = (
    sign_up,
    log_in,
    log_out,
    session,
    create_key,
    list_keys,
    revoke_key,
    create_website,
    list_websites,
    read_website,
    change_website,
    delete_website,
)
