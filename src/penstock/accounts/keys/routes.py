"""HTTP routes for API keys."""

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.keys.schema import KeyRecord, NewKey, NewKeyRecord
from penstock.accounts.keys.service import KeyService
from penstock.accounts.model import CurrentUser
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery


@post(
    "/api/settings/api-keys",
    opt=described("Create an API key", body=NewKey, answers=NewKeyRecord, tag="accounts"),
)
async def create_key(
    request: AnyRequest,
    current_user: NamedDependency[CurrentUser],
    key_service: NamedDependency[KeyService],
) -> Response[bytes]:
    """Creates an API key, which is shown only once. Requires a session: API keys cannot create API
    keys.

    Without `scopes` and `websiteId`, the key has full access to the workspace.
    """
    form = await read_json(request, NewKey)
    key, secret = await to_thread.run_sync(key_service.create_key, current_user.caller, form)
    return answer(NewKeyRecord.from_key(key, secret), status=201)


@get(
    "/api/settings/api-keys",
    opt=described("API keys", answers=KeyRecord, query=PageQuery, listed=True, tag="accounts"),
)
async def list_keys(
    request: AnyRequest,
    current_user: NamedDependency[CurrentUser],
    key_service: NamedDependency[KeyService],
) -> Response[bytes]:
    """Lists keys, newest first, including revoked keys."""
    page = read_query(request, PageQuery).pagination
    keys = await to_thread.run_sync(key_service.keys, current_user.workspace.id, page)
    return await answer_list(keys, KeyRecord.from_key)


@delete("/api/settings/api-keys/{key_id:str}", opt=described("Revoke an API key", tag="accounts"))
async def revoke_key(
    key_id: FromPath[str],
    current_user: NamedDependency[CurrentUser],
    key_service: NamedDependency[KeyService],
) -> Response[None]:
    await to_thread.run_sync(key_service.revoke_key, current_user.caller, key_id)
    return no_content()


ROUTES = (create_key, list_keys, revoke_key)
