"""The layer around all routes: request IDs, limits on addresses and bodies, and metrics."""

from collections import Counter
from contextlib import suppress
from time import perf_counter
from typing import Any

from litestar.types import ASGIApp, Message, Receive, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.base.clock import Clock
from penstock.base.errors import Malformed, PenstockError, RatePolicy, Unavailable
from penstock.base.metrics import LoopHistogram
from penstock.base.networks import TrustedNetworks, client_network
from penstock.base.request_ids import REQUEST_ID, request_id_of
from penstock.edge.connections import REFUSALS
from penstock.http.body_memory import SCOPE_KEY, BodyMemory, HeldBody
from penstock.http.cors import OpenRoutes
from penstock.http.problems import rate_headers
from penstock.http.rate_limiter import RateLimiter
from penstock.settings import Settings

_WINDOW_S = 10
_MAX_PARAMETERS = 100
"""Maximum number of query parameters. A head can contain thousands, which take 20 ms to parse."""
_MAX_FORWARDED_BYTES = 2048
"""Maximum total size of `X-Forwarded-For`: about a hundred addresses. Thousands take 6 ms."""
_NAMES = frozenset((b"x-request-id", b"x-forwarded-for", b"x-forwarded-proto"))
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_CACHING = b"cache-control"
_NO_STORE = (_CACHING, b"no-store")
_NO_HEADERS: list[tuple[bytes, bytes]] = []
_SECONDS = LoopHistogram(
    "penstock_http_request_seconds",
    "Time from the end of a request's headers to the end of its response.",
    ["method", "route", "status"],
)


class AddressBudget:
    """Limits the requests of each client address: requests per second, and requests in progress.

    A client behind a trusted proxy is counted under the address that the proxy forwards. A trusted
    proxy's own requests are not limited.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._is_proxy = TrustedNetworks(settings.trusted_proxies).__contains__
        self._max_in_progress = settings.address_connections
        self._rates = RateLimiter(
            RatePolicy(
                "address",
                quota=settings.share(settings.address_requests_per_second * _WINDOW_S),
                window_s=_WINDOW_S,
                counted="requests from this address",
            ),
            clock,
        )
        self._in_progress: Counter[str] = Counter()

    def enter(self, address: str) -> tuple[str, list[tuple[bytes, bytes]]]:
        """Count a request. Returns a key for `leave`, which is empty if the request is not counted,
        and response headers.

        Raises `RateLimited` if the address's quota is used up, and `Unavailable` if too many of its
        requests are in progress.
        """
        if not address or self._is_proxy(address):
            return "", _NO_HEADERS
        key = client_network(address)
        quota = self._rates.count(key)
        if self._in_progress[key] >= self._max_in_progress:
            raise Unavailable(
                "Too many requests from this address are in progress. Try again in a moment.",
                code="too_many_connections",
                retry_after_s=1,
            )
        self._in_progress[key] += 1
        return key, rate_headers(self._rates.policy, quota.remaining, quota.reset_s)

    def leave(self, key: str) -> None:
        self._in_progress[key] -= 1
        if not self._in_progress[key]:
            del self._in_progress[key]

    def requests_in_progress(self) -> int:
        """Number of requests in progress, excluding the proxies' own requests."""
        return self._in_progress.total()


class Passage:
    """A request on its way through the edge, counted for its address until `leave`.

    refusal: the error that replaces the application's response if the address has used its quota,
    or the request exceeds a limit.
    """

    __slots__ = ("_began_s", "_budget", "_rate", "address_key", "refusal", "request_id")

    def __init__(self, budget: AddressBudget, address: str, request_id: str) -> None:
        self._began_s, self._budget, self.request_id = perf_counter(), budget, request_id
        self.address_key, self._rate = "", _NO_HEADERS
        self.refusal: PenstockError | None = None
        try:
            self.address_key, self._rate = budget.enter(address)
        except PenstockError as error:
            REFUSALS.labels(f"address_{error.code}").inc()
            self.refusal = error

    def refuse(self, error: PenstockError) -> None:
        """Reject the request. The error becomes its only response."""
        REFUSALS.labels(error.code).inc()
        self.refusal = error

    def headers(self, status: int) -> list[tuple[bytes, bytes]]:
        """Return the headers that the edge adds to a response.

        A 429 response gets no headers for the address's quota, because it describes the exhausted
        quota, which may be another one.
        """
        rate = self._rate if status != 429 else _NO_HEADERS
        return [_NOSNIFF, (b"x-request-id", self.request_id.encode()), *rate]

    def leave(self, scope: Any, status: int) -> None:
        """Stop counting the request. Call it once. status: HTTP status, or 0 if there was no
        response.
        """
        if self.address_key:
            self._budget.leave(self.address_key)
        route = scope.get("path_template") or "none"
        _SECONDS.observe((scope["method"], route, status), perf_counter() - self._began_s)


class EdgeLayer:
    """ASGI middleware around all routes. Sets `scope["client"]` to the client address that a
    trusted proxy forwards.
    """

    def __init__(
        self,
        app: ASGIApp,
        budget: AddressBudget,
        bodies: BodyMemory,
        open_routes: OpenRoutes,
        trusted_proxies: str,
    ) -> None:
        self._app, self._open_routes = app, open_routes
        self._budget, self._bodies = budget, bodies
        # uvicorn and litestar have separate types for the same interface
        nothing: Any = _do_nothing
        self._name_client: Any = ProxyHeadersMiddleware(nothing, trusted_hosts=trusted_proxies)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(self._enter(scope), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _enter(self, scope: Any) -> Passage:
        """Start handling a request whose head has arrived."""
        sent_id, forwarded_bytes = None, 0
        for name, value in scope["headers"]:
            if name in _NAMES:
                if name == b"x-request-id":
                    sent_id = value
                else:
                    forwarded_bytes += len(value)
        if 0 < forwarded_bytes <= _MAX_FORWARDED_BYTES:
            with suppress(StopIteration):  # The coroutine never suspends.
                self._name_client(scope, None, None).send(None)
        client = scope["client"]
        passage = Passage(self._budget, client[0] if client else "", request_id_of(sent_id))
        if passage.refusal is None and (error := _broken_budget(scope, forwarded_bytes)):
            passage.refuse(error)
        return passage

    async def _serve(self, passage: Passage, scope: Any, receive: Receive, send: Send) -> None:
        """Let the application answer a request after `_enter`."""
        REQUEST_ID.set(passage.request_id)  # applies to this task only
        status = 0
        body = scope[SCOPE_KEY] = HeldBody(self._bodies, passage.address_key)

        # This returns the coroutine of `send` instead of creating another.
        def send_with_headers(message: Message) -> Any:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message["headers"])
                # By default, caches may keep some responses that say nothing.
                if all(name != _CACHING for name, _ in headers):
                    headers.append(_NO_STORE)
                message["headers"] = [*headers, *passage.headers(status)]
            elif not message.get("more_body"):
                # Release first: the client may send its next body when it gets the response.
                body.release()
            return send(message)

        try:
            app = self._app
            if passage.refusal is not None:
                app = self._open_routes.refusal(scope, passage.refusal)
            await app(scope, receive, send_with_headers)
        finally:
            body.release()
            passage.leave(scope, status)


def _broken_budget(scope: Any, forwarded_bytes: int) -> PenstockError | None:
    if scope["query_string"].count(b"&") >= _MAX_PARAMETERS:
        return Malformed(
            f"The URL has more than {_MAX_PARAMETERS} query parameters.",
            code="too_many_parameters",
        )
    if forwarded_bytes > _MAX_FORWARDED_BYTES:
        return Malformed(
            f"X-Forwarded-For has more than {_MAX_FORWARDED_BYTES:,} bytes.",
            code="too_many_proxies",
        )
    return None


async def _do_nothing(*_: object) -> None:
    pass
