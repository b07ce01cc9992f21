"""Both doors of assistants: `/mcp` and `penstock mcp`."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from docsite.pages import blocks
from mcp import Client, MCPError, StdioServerParameters

from penstock.assistants.tools import TOOLS
from penstock.http.bodies import FORM_BYTES
from tests.answers import faults, problem
from tests.assistants.client import Assistant, text_of
from tests.http_server import Answering, http_server
from tests.other_programs import run_program
from tests.records import new_key
from tests.serving import environment, error_of, penstock
from tests.tenant import Tenant, visitor
from tests.wired import Wire

pytestmark = pytest.mark.usefixtures("warehouse")

ACCEPT = {"Accept": "application/json, text/event-stream"}


def send(client: httpx.Client, method: str = "tools/list", **more: Any) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": more}
    return client.post("/mcp", json=message, headers=ACCEPT)


def with_key(workspace: Tenant, *scopes: str) -> httpx.Client:
    key = new_key(workspace.browser, scopes=list(scopes))
    return visitor(workspace.client._transport.client, {"Authorization": f"Bearer {key}"})


def command_of(settings: Mapping[str, str]) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "penstock.cli.main", "mcp"],
        env={**os.environ, **settings},
    )


def test_only_a_key_that_may_read_opens_the_door(workspace: Tenant) -> None:
    assert problem(send(visitor(workspace.client._transport.client))) == (401, "key_required")
    assert problem(send(workspace.browser)) == (401, "key_required")
    assert problem(send(with_key(workspace, "ingest", "manage"))) == (403, "scope_missing")
    assert send(with_key(workspace, "read")).status_code == 200


def test_messages_are_limited_before_the_library_reads_them(workspace: Tenant) -> None:
    large = {"name": "find_events", "arguments": {"search": "x" * FORM_BYTES}}
    assert problem(send(workspace.client, "tools/call", **large)) == (413, "too_large")
    many = {"name": "find_events", "arguments": {"search": [0] * 20_000}}
    assert faults(send(workspace.client, "tools/call", **many)) == {"": "too_many_values"}
    answer = workspace.client.post("/mcp", content="{", headers={"Content-Type": "text/plain"})
    assert problem(answer) == (415, "unsupported_media_type")
    assert workspace.client.get("/mcp").status_code == 405


def test_nothing_is_kept_between_messages(workspace: Tenant) -> None:
    """So that any node can answer any message, and no number of clients fills the memory."""
    answer = send(workspace.client)
    assert "mcp-session-id" not in answer.headers
    assert len(answer.json()["result"]["tools"]) == len(TOOLS)


@pytest.mark.slow("imports the whole application again")
def test_the_library_is_loaded_only_by_the_first_message() -> None:
    """It takes half a second and 20 MB, which a service without assistants does not need."""
    code = (
        "import sys, penstock.app, penstock.cli.serve; print({'mcp', 'httpx2'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert run.stdout == "set()\n"


@pytest.mark.slow("starts an interpreter")
def test_the_documented_set_up_connects_both_doors(
    starts_service: None, wire: Wire, workspace: Tenant
) -> None:
    """The command has the same tools and answers."""
    url, key = str(wire.client.base_url).rstrip("/"), workspace.client.headers["Authorization"][7:]
    texts = [
        block.text.replace("https://penstock.example.com", url).replace("psk_...", key)
        for block in blocks(Path("docs/assistants.md"))
    ]
    remote, local = (json.loads(text)["mcpServers"]["penstock"] for text in texts[:2])
    http = Assistant(remote["url"], remote["headers"]["Authorization"].removeprefix("Bearer "))
    assert local["args"] == ["mcp"]

    async def use() -> tuple[list[str], Any, Any]:
        async with Client(command_of(local["env"])) as client:
            tools = (await client.list_tools()).tools
            events = await client.call_tool("find_events", {})
            wrong = await client.call_tool("describe_funnel", {"funnelId": "fun_x"})
            return [tool.name for tool in tools], events, wrong

    names, events, wrong = anyio.run(use)
    assert names == list(http.tools())
    assert events.content == http.result("find_events").content
    assert wrong.is_error
    assert json.loads(text_of(wrong))["code"] == "not_found"
    listed = json.loads(run_program(["sh", "-c", texts[2]], may_warn=True))
    assert [tool["name"] for tool in listed["result"]["tools"]] == names


@pytest.mark.slow("runs three commands")
def test_the_command_says_what_is_wrong_before_it_serves(
    starts_service: None, wire: Wire, workspace: Tenant
) -> None:
    url = str(wire.client.base_url)
    assert "set PENSTOCK_API_KEY" in error_of(penstock("mcp", PENSTOCK_URL=url), 2)
    wrong = penstock("mcp", PENSTOCK_URL=url, PENSTOCK_API_KEY="psk_wrong")
    assert "API key" in error_of(wrong)
    gone = penstock("mcp", PENSTOCK_URL="http://127.0.0.1:9", PENSTOCK_API_KEY="psk_wrong")
    assert "no Penstock answers at" in error_of(gone)


class _Greeting(Answering, BaseHTTPRequestHandler):
    """A service that only answers the first message of the command."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, "application/json", b'{"result": {"instructions": "Ask."}}')


@pytest.mark.slow("starts an interpreter")
def test_the_command_outlives_the_service(starts_service: None) -> None:
    async def use() -> None:
        async with AsyncExitStack() as stack:
            with http_server(_Greeting) as url:
                command = command_of({"PENSTOCK_URL": url, "PENSTOCK_API_KEY": "psk_x"})
                client = await stack.enter_async_context(Client(command))
            for _ in range(2):
                with pytest.raises(MCPError, match="No Penstock answers at http"):
                    await client.call_tool("list_funnels", {})

    anyio.run(use)
