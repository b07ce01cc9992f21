"""An assistant: the client of the library, connected to a test's application."""

import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Tool

from tests.waiting import PATIENCE_S
from tests.wired import Wire

Json = dict[str, Any]


@dataclass(frozen=True)
class Assistant:
    """url: of `/mcp`. key: an API key."""

    url: str
    key: str

    def run(self, use: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
        """Connect, and return what a function does with the connection."""

        async def connect() -> Any:
            headers = {"Authorization": f"Bearer {self.key}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
                Client(streamable_http_client(self.url, http_client=http), **options) as client,
            ):
                return await use(client)

        # In its own thread: the loop of a browser may run in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(anyio.run, connect).result()

    def tools(self) -> dict[str, Tool]:
        async def listed(client: Client) -> list[Tool]:
            return (await client.list_tools()).tools

        return {tool.name: tool for tool in self.run(listed)}

    def result(self, tool: str, **arguments: Any) -> CallToolResult:
        result: CallToolResult = self.run(lambda client: client.call_tool(tool, arguments))
        return result

    def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool and return its answer."""
        result = self.result(tool, **arguments)
        assert not result.is_error, text_of(result)
        answer: Json = json.loads(text_of(result))
        return answer

    def problem(self, tool: str, **arguments: Any) -> Json:
        """Call a tool that must fail, and return the problem."""
        result = self.result(tool, **arguments)
        assert result.is_error, text_of(result)
        problem: Json = json.loads(text_of(result))
        return problem


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    text: str = getattr(content, "text", "")
    return text


def connected(wire: Wire, authorization: str) -> Assistant:
    """Return an assistant that sends a client's API key."""
    return Assistant(f"{wire.client.base_url}/mcp".replace("//mcp", "/mcp"), authorization[7:])
