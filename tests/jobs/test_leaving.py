"""Who goes away is not worked for any longer."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.answers import body_of
from tests.applications import application
from tests.one_server import one_server
from tests.recording_warehouse import ENDLESS
from tests.tenant import BASE_URL
from tests.waiting import eventually


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


@pytest.fixture
def request_and_disconnect(server, services, client):
    """Sends a request and disconnects once a condition is true; returns the unread messages."""
    app = application(services)

    def run_request(
        method: str, path: str, until: Callable[[], Any], body: Any = None
    ) -> list[Any]:
        content = b"" if body is None else json.dumps(body).encode()
        request = httpx.Request(
            method,
            BASE_URL + path,
            headers={**client.headers, "Content-Type": "application/json"},
            content=content,
        )
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "root_path": "",
        }
        scope |= {
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "server": ("testserver.local", 80),
        }
        scope |= {
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "state": {},
        }
        sent: list[Any] = []

        async def run() -> None:
            messages = [{"type": "http.request", "body": content, "more_body": False}]

            async def receive() -> Any:
                if messages:
                    return messages.pop()
                await asyncio.to_thread(eventually, until)
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            await app(scope, receive, send)

        with server.portal() as portal:
            portal.call(run)
        return sent

    return run_request


@pytest.mark.parametrize("how", ["results", "preview", "assistant"])
def test_the_engine_stops_when_the_client_goes_away(request_and_disconnect, warehouse, funnel, how):
    steps = {"steps": [{"type": "Event", "value": "A"}, {"type": "Event", "value": "B"}]}
    with warehouse.running_before_reports(ENDLESS):
        if how == "results":
            request_and_disconnect(
                "GET", f"/api/funnels/{funnel}/results", lambda: warehouse.running() == 1
            )
        elif how == "assistant":
            call = {"funnelId": funnel, "question": "results"}
            message = {"name": "ask_funnel", "arguments": call}
            request_and_disconnect(
                "POST",
                "/mcp",
                lambda: warehouse.running() == 1,
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message},
            )
        else:
            request_and_disconnect(
                "POST", "/api/funnels/preview", lambda: warehouse.running() == 1, steps
            )
        eventually(lambda: warehouse.running() == 0)
    assert len(warehouse.reports) == 1


@one_server("a merge of parts between the two requests is a change there")
def test_a_statement_continues_while_another_client_waits_for_it(
    request_and_disconnect, warehouse, funnel, client
):
    path = f"/api/funnels/{funnel}/results"
    with ThreadPoolExecutor() as threads, warehouse.holding() as hold:
        leaving_client = threads.submit(
            request_and_disconnect, "GET", path, lambda: hold.requests == 2
        )
        eventually(lambda: hold.requests == 1)
        waiting_client = threads.submit(client.get, path)
        leaving_client.result()
        assert hold.requests == 1
        hold.release()
        answer = waiting_client.result()
    assert body_of(answer)["aggregate"]["completed"] == 1
    assert len(warehouse.reports) == 1
