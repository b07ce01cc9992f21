"""HTTP routes for payment providers: webhooks and signing secrets."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import read_json, read_query, read_raw
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.providers.model import Delivery
from penstock.providers.schema import NewSecret, ProviderRecord, WebhookRecord
from penstock.providers.service import ProviderService
from penstock.settings import Settings


@post(
    "/api/providers/{provider:str}/{website_id:str}",
    status_code=200,
    opt=described(
        "A payment provider's webhook", answers=WebhookRecord, open_to_all=True, tag="events in"
    ),
)
async def receive_webhook(
    request: AnyRequest,
    provider: FromPath[str],
    website_id: FromPath[str],
    providers: NamedDependency[ProviderService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Stores a provider's event. Returns 200 once it is on disk.

    Returns 401 if the signature is missing or invalid. `provider` is `stripe`, `polar` or
    `standardwebhooks`.
    """
    body = await read_raw(request, settings.limits.max_body_bytes)
    webhook = await providers.receive(provider, website_id, Delivery(request.headers, body))
    return answer(WebhookRecord.from_webhook(webhook))


@get(
    "/api/settings/websites/{website_id:str}/providers",
    opt=described(
        "Payment providers of a website",
        answers=ProviderRecord,
        query=PageQuery,
        listed=True,
        tag="providers",
    ),
)
async def list_providers(
    request: AnyRequest,
    website_id: FromPath[str],
    caller: NamedDependency[Caller],
    providers: NamedDependency[ProviderService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Lists providers by name. Shows when each valid secret was set, but not the secrets."""
    page = read_query(request, PageQuery).pagination
    configs = await to_thread.run_sync(
        providers.list_providers, caller.workspace_id, website_id, page
    )
    return await answer_list(
        configs, partial(ProviderRecord.from_config, base_url=settings.base_url)
    )


@put(
    "/api/settings/websites/{website_id:str}/providers/{provider:str}",
    opt=described(
        "Set a provider's signing secret", body=NewSecret, answers=ProviderRecord, tag="providers"
    ),
)
async def set_provider_secret(
    request: AnyRequest,
    website_id: FromPath[str],
    provider: FromPath[str],
    caller: NamedDependency[Caller],
    providers: NamedDependency[ProviderService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Sets the current signing secret. Penstock never shows it again.

    The previous secret stays valid for a day by default; set `previousValidSeconds` to change this.
    """
    body = await read_json(request, NewSecret)
    config = await to_thread.run_sync(
        providers.set_secret,
        caller,
        website_id,
        provider,
        body.signing_secret.get_secret_value(),
        body.previous_valid_seconds,
    )
    return answer(ProviderRecord.from_config(config, settings.base_url))


@delete(
    "/api/settings/websites/{website_id:str}/providers/{provider:str}",
    opt=described("Remove a provider from a website", tag="providers"),
)
async def remove_provider(
    website_id: FromPath[str],
    provider: FromPath[str],
    caller: NamedDependency[Caller],
    providers: NamedDependency[ProviderService],
) -> Response[None]:
    """Deletes the provider's secrets. Its webhooks are then rejected; stored events are kept."""
    await to_thread.run_sync(providers.remove, caller, website_id, provider)
    return no_content()


ROUTES = (receive_webhook, list_providers, set_provider_secret, remove_provider)
