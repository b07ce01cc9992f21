"""The HTTP route for assistants."""

from importlib import import_module

from anyio import to_thread
from litestar import Response

from penstock.accounts.keys.service import KeyService
from penstock.accounts.model import Caller
from penstock.accounts.workspace.service import WorkspaceService
from penstock.assistants.calls import Api
from penstock.assistants.contents import ContentsFilter
from penstock.http.bodies import FORM_BYTES
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.http.scopes import KeyScope, require_scope
from penstock.settings import Settings


async def provide_key_caller(request: AnyRequest, key_service: KeyService) -> Caller:
    """Identify the caller by an API key that may read. A session is not accepted."""
    caller = await key_service.authenticate(request.headers.get("authorization"))
    require_scope(caller.scopes, (KeyScope.READ,))
    return caller


@route(
    "POST",
    "/mcp",
    "Tools for assistants",
    status=200,
    max_bytes=FORM_BYTES,
    scopes=(KeyScope.READ,),
    only_key=True,
    tag="assistants",
)
async def call_tools(
    request: AnyRequest,
    key_caller: Caller,
    limits: WorkspaceService,
    settings: Settings,
    body: bytes,
) -> Response[bytes]:
    """A server of the Model Context Protocol (streamable HTTP, without sessions). The body is a
    JSON-RPC message.
    """
    contents = await to_thread.run_sync(ContentsFilter.of, limits, key_caller.workspace_id)
    # Importing the protocol's library takes half a second and 20 MB.
    protocol = await to_thread.run_sync(import_module, "penstock.assistants.protocol")
    response: Response[bytes] = await protocol.respond(
        body, Api(request, settings.base_url), contents
    )
    return response


ROUTES = (call_tools,)
