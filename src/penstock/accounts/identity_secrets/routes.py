"""HTTP routes for identity secrets."""

from anyio import to_thread
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.identity_secrets.schema import (
    IdentitySecretRecord,
    NewIdentitySecretRecord,
)
from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.model import Caller
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery

_PATH = "/api/settings/websites/{website_id:str}/identity-secrets"


@post(
    _PATH,
    opt=described("Create an identity secret", answers=NewIdentitySecretRecord, tag="accounts"),
)
async def create_identity_secret(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    identity_secrets: NamedDependency[IdentitySecretService],
) -> Response[bytes]:
    """Creates a secret, which is shown only once. Earlier secrets stay valid for a day."""
    secret = await to_thread.run_sync(identity_secrets.create, caller, website_id)
    return answer(NewIdentitySecretRecord.with_secret(secret), status=201)


@get(
    _PATH,
    opt=described(
        "Identity secrets",
        answers=IdentitySecretRecord,
        query=PageQuery,
        listed=True,
        tag="accounts",
    ),
)
async def list_identity_secrets(
    request: AnyRequest,
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    identity_secrets: NamedDependency[IdentitySecretService],
) -> Response[bytes]:
    """Lists valid secrets, newest first, without the secrets themselves."""
    page = read_query(request, PageQuery).pagination
    secrets = await to_thread.run_sync(
        identity_secrets.secrets, caller.workspace_id, website_id, page
    )
    return await answer_list(secrets, IdentitySecretRecord.from_secret)


@delete(_PATH, opt=described("Delete all identity secrets", tag="accounts"))
async def delete_identity_secrets(
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    identity_secrets: NamedDependency[IdentitySecretService],
) -> Response[None]:
    """Deletes all secrets of the website. Signatures made with them are no longer accepted."""
    await to_thread.run_sync(identity_secrets.delete, caller, website_id)
    return no_content()


ROUTES = (create_identity_secret, list_identity_secrets, delete_identity_secrets)
