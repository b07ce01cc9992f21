"""`penstock mcp`: connects an assistant on this machine to a running service."""

from typing import Any

import anyio
import httpx
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import INTERNAL_ERROR, CallToolRequestParams, CallToolResult, ListToolsResult
from mcp.types.version import LATEST_HANDSHAKE_VERSION

from penstock import __version__
from penstock.cli.client import LOCAL, ApiKey, Record, Url, problem_of, record_of, service_client

_PATH = "/mcp"
_TIMEOUT_S = 600
_CLIENT = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "penstock mcp", "version": __version__},
}


def mcp(url: Url = LOCAL, api_key: ApiKey = "") -> None:
    """Give an assistant on this machine the tools of a running service (MCP over stdio).

    The assistant starts this command. The API key needs the permission read; with manage, the
    assistant can also save funnels that it has drafted.
    """
    with service_client(url, api_key, owns="funnels") as client:
        answer = record_of(client.post(_PATH, json=_message("initialize", _CLIENT)))
    anyio.run(_serve, url, api_key, answer["result"]["instructions"])


async def _serve(url: str, api_key: str, instructions: str) -> None:
    """Send each message of the assistant to the service, until the assistant ends."""

    async def ask(method: str, parameters: Record) -> Record:
        try:
            answer = await http.post(_PATH, json=_message(method, parameters))
        except httpx.HTTPError as error:
            reason = f"No Penstock answers at {url} ({error or type(error).__name__}). Start it."
            raise MCPError(INTERNAL_ERROR, reason) from None
        if not answer.is_success:
            reason = problem_of(answer).get("detail") or f"{url} answered {answer.status_code}."
            raise MCPError(INTERNAL_ERROR, reason)
        message: Record = answer.json()
        if "error" in message:
            raise MCPError(message["error"]["code"], message["error"]["message"])
        result: Record = message["result"]
        return result

    async def list_tools(*_: object) -> ListToolsResult:
        return ListToolsResult.model_validate(await ask("tools/list", {}))

    async def call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
        call: dict[str, Any] = {"name": params.name, "arguments": params.arguments or {}}
        return CallToolResult.model_validate(await ask("tools/call", call))

    server = Server(
        "penstock",
        title="Penstock",
        version=__version__,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    headers = {"Authorization": f"Bearer {api_key}"}
    async with (
        httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S) as http,
        stdio_server() as (from_assistant, to_assistant),
    ):
        await server.run(from_assistant, to_assistant, server.create_initialization_options())


def _message(method: str, parameters: Record) -> Record:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
