"""Requests to the API from within the service.

An assistant's tool calls the same handler as a program that sends a request, with the same key. So
it gets the same answer, after the same checks and within the same budgets.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

from anyio import to_thread
from pydantic_core import from_json, to_json

from penstock.http.body_memory import SCOPE_KEY
from penstock.http.requests import AnyRequest

Json = dict[str, Any]

_OF_CONNECTION = (
    *("type", "asgi", "http_version", "scheme", "server", "client", "root_path"),
    SCOPE_KEY,
)
"""Parts of an ASGI scope that describe the connection and not the request."""


class ApiProblem(Exception):
    """The API answered with an error. document: its problem document."""

    def __init__(self, document: Json) -> None:
        super().__init__(document.get("detail"))
        self.document = document


class Api:
    """The API, called with the key of an assistant's request.

    request: its body must have been read. base_url: the URL of the service. Methods raise
    `ApiProblem`. They stop when the assistant disconnects.
    """

    def __init__(self, request: AnyRequest, base_url: str) -> None:
        self.request, self.base_url = request, base_url

    async def get(self, path: str, parameters: Mapping[str, str]) -> Json:
        return await self._send("GET", path, urlencode(parameters))

    async def post(self, path: str, body: Any, parameters: Mapping[str, str] = {}) -> Json:
        return await self._send("POST", path, urlencode(parameters), to_json(body))

    async def _send(self, method: str, path: str, query: str, body: bytes = b"") -> Json:
        outer: Any = self.request.scope
        headers = [(name, value) for name, value in outer["headers"] if name == b"authorization"]
        if body:
            headers.append((b"content-type", b"application/json"))
            headers.append((b"content-length", b"%d" % len(body)))
        scope = {
            **{name: outer[name] for name in _OF_CONNECTION if name in outer},
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        status, content = await self.forward(self.request.app, scope, body)
        answer: Json = await to_thread.run_sync(from_json, content or b"{}")
        if status >= 400:
            raise ApiProblem(answer)
        return answer

    async def forward(self, app: Any, scope: Any, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of an ASGI application's response. The application sees
        when the assistant disconnects.
        """
        is_read, status, content = False, 500, b""

        async def receive() -> Any:
            nonlocal is_read
            if is_read:  # now only a disconnect can arrive
                return await self.request.receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, content
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                content += message.get("body", b"")

        await app(scope, receive, send)
        return status, content


def as_parameters(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return a tool's arguments as query parameters. Lists of names become text with commas, and
    other lists and objects become JSON.
    """
    return {name: _text(value) for name, value in arguments.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return to_json(value).decode()
