"""HTTP of accounts."""

from functools import partial
from typing import Any

from anyio import to_thread
from litestar import Request, Response, delete, get, patch, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.callers import SESSION_COOKIE, from_this_machine, require_own_page
from penstock.accounts.model import Caller, SignedIn
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
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S, Settings

_COOKIE_DAYS = 400
"""The longest that browsers keep a cookie. When a session ends is the server's to say, so the cookie need not be sent anew at each use."""


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


# Users and sessions ---------------------------------------------------------------------------------------------------


@post("/api/auth/signup", opt=described("Sign up", body=SignUp, answers=SessionRecord, open_to_all=True, tag="accounts"))
async def sign_up(
    request: Request[Any, Any, Any], accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> Response[bytes]:
    """The first account is made from the machine itself or with the setup token in `X-Setup-Token`; later ones while sign-up is open."""
    require_own_page(request, settings)
    form = await read_json(request, SignUp)
    use_case = partial(
        accounts.sign_up, form, from_this_machine=from_this_machine(request), setup_token=request.headers.get("x-setup-token")
    )
    token, account = await to_thread.run_sync(use_case, limiter=accounts.password_work)
    return _with_session(answer(SessionRecord.of(account), status=201), token, settings)


@post("/api/auth/login", status_code=200, opt=described("Log in", body=LogIn, answers=SessionRecord, open_to_all=True, tag="accounts"))
async def log_in(
    request: Request[Any, Any, Any], accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> Response[bytes]:
    require_own_page(request, settings)
    form = await read_json(request, LogIn)
    address = request.client.host if request.client else ""
    use_case = partial(accounts.log_in, form.email, form.password.get_secret_value(), address)
    token, account = await to_thread.run_sync(use_case, limiter=accounts.password_work)
    return _with_session(answer(SessionRecord.of(account)), token, settings)


@post("/api/auth/logout", status_code=204, opt=described("Log out", open_to_all=True, tag="accounts"))
async def log_out(
    request: Request[Any, Any, Any], accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> Response[None]:
    """Ends the session of the cookie, if there is one."""
    require_own_page(request, settings)
    if token := request.cookies.get(SESSION_COOKIE):
        await to_thread.run_sync(accounts.log_out, token)
    response = no_content()
    response.delete_cookie(SESSION_COOKIE)
    return response


@get("/api/auth/session", opt=described("Who is signed in", answers=SessionRecord, tag="accounts"))
async def session(signed_in: NamedDependency[SignedIn]) -> Response[bytes]:
    return answer(SessionRecord.of(signed_in))


# API keys -------------------------------------------------------------------------------------------------------------


@post("/api/settings/api-keys", opt=described("Create an API key", body=NewKey, answers=NewKeyRecord, tag="accounts"))
async def create_key(
    request: Request[Any, Any, Any], signed_in: NamedDependency[SignedIn], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    """The answer shows the key this once. Takes the session cookie; an API key cannot make another."""
    form = await read_json(request, NewKey)
    key, secret = await to_thread.run_sync(accounts.create_key, signed_in.workspace.id, form.name)
    return answer(NewKeyRecord.of(key, secret), status=201)


@get("/api/settings/api-keys", opt=described("API keys", answers=KeyRecord, query=PageQuery, listed=True, tag="accounts"))
async def list_keys(
    request: Request[Any, Any, Any], signed_in: NamedDependency[SignedIn], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    """Newest first, revoked ones too."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(accounts.keys, signed_in.workspace.id, page)
    return listing(found, KeyRecord.of)


@delete("/api/settings/api-keys/{key_id:str}", opt=described("Revoke an API key", tag="accounts"))
async def revoke_key(
    key_id: FromPath[str], signed_in: NamedDependency[SignedIn], accounts: NamedDependency[AccountService]
) -> Response[None]:
    await to_thread.run_sync(accounts.revoke_key, signed_in.workspace.id, key_id)
    return no_content()


# Websites -------------------------------------------------------------------------------------------------------------


@post("/api/settings/websites", opt=described("Add a website or a mobile app", body=NewWebsite, answers=WebsiteRecord, tag="accounts"))
async def create_website(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    form = await read_json(request, NewWebsite)
    website = await to_thread.run_sync(accounts.create_website, caller.workspace_id, form)
    return answer(WebsiteRecord.of(website), status=201)


@get(
    "/api/settings/websites", opt=described("Websites and mobile apps", answers=WebsiteRecord, query=PageQuery, listed=True, tag="accounts")
)
async def list_websites(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    """Oldest first."""
    page = read_query(request, PageQuery).asked
    found = await to_thread.run_sync(accounts.websites_page, caller.workspace_id, page)
    return listing(found, WebsiteRecord.of)


@get("/api/settings/websites/{website_id:str}", opt=described("A website", answers=WebsiteRecord, tag="accounts"))
async def read_website(
    website_id: FromPath[str], caller: NamedDependency[Caller], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    return answer(WebsiteRecord.of(await to_thread.run_sync(accounts.website, caller.workspace_id, website_id)))


@patch(
    "/api/settings/websites/{website_id:str}",
    opt=described("Change a website", body=WebsiteChanges, answers=WebsiteRecord, tag="accounts"),
)
async def change_website(
    request: Request[Any, Any, Any], website_id: FromPath[str], caller: NamedDependency[Caller], accounts: NamedDependency[AccountService]
) -> Response[bytes]:
    """A field that is left out stays; null clears it."""
    changes = await read_json(request, WebsiteChanges)
    website = await to_thread.run_sync(accounts.change_website, caller.workspace_id, website_id, changes)
    return answer(WebsiteRecord.of(website))


@delete("/api/settings/websites/{website_id:str}", opt=described("Delete a website", tag="accounts"))
async def delete_website(
    website_id: FromPath[str], caller: NamedDependency[Caller], accounts: NamedDependency[AccountService]
) -> Response[None]:
    """It takes no more events; the events it has are kept."""
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
