"""HTTP routes for payment providers: webhooks and signing secrets."""

from functools import partial

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.bodies import read_raw
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery
from penstock.providers.model import Delivery
from penstock.providers.schema import NewSecret, ProviderRecord, WebhookRecord
from penstock.providers.service import ProviderService
from penstock.settings import Settings

_ALL = "/api/settings/websites/{website_id:str}/providers"
_ONE = "/api/settings/websites/{website_id:str}/providers/{provider:str}"


@route(
    "POST",
    "/api/providers/{provider:str}/{website_id:str}",
    "A payment provider's webhook",
    status=200,
    open_to_all=True,
    tag="events in",
)
async def receive_webhook(
    request: AnyRequest,
    providers: ProviderService,
    settings: Settings,
    provider: str,
    website_id: str,
) -> WebhookRecord:
    """Stores a provider's event. Returns 200 once it is on disk.

    Returns 401 if the signature is missing or invalid. `provider` is `stripe`, `polar` or
    `standardwebhooks`.
    """
    body = await read_raw(request, settings.limits.max_body_bytes)
    return await providers.receive(provider, website_id, Delivery(request.headers, body))


@route("GET", _ALL, "Payment providers of a website", tag="providers")
def list_providers(
    caller: Caller,
    providers: ProviderService,
    settings: Settings,
    website_id: str,
    query: PageQuery,
) -> Listing[ProviderRecord]:
    """Lists providers by name. Shows when each valid secret was set, but not the secrets."""
    configs = providers.list_providers(caller.workspace_id, website_id, query.pagination)
    return configs.map(partial(ProviderRecord.from_config, base_url=settings.base_url))


@route("PUT", _ONE, "Set a provider's signing secret", tag="providers")
def set_provider_secret(
    caller: Caller,
    providers: ProviderService,
    settings: Settings,
    website_id: str,
    provider: str,
    secret: NewSecret,
) -> ProviderRecord:
    """Sets the current signing secret. Penstock never shows it again.

    The previous secret stays valid for a day by default; set `previousValidSeconds` to change this.
    """
    config = providers.set_secret(
        caller,
        website_id,
        provider,
        secret.signing_secret.get_secret_value(),
        secret.previous_valid_seconds,
    )
    return ProviderRecord.from_config(config, settings.base_url)


@route("DELETE", _ONE, "Remove a provider from a website", tag="providers")
def remove_provider(
    caller: Caller, providers: ProviderService, website_id: str, provider: str
) -> None:
    """Deletes the provider's secrets. Its webhooks are then rejected; stored events are kept."""
    providers.remove(caller, website_id, provider)


ROUTES = (receive_webhook, list_providers, set_provider_secret, remove_provider)
