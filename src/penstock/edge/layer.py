"""Around every route and fast path: the ID of the request, budgets of address and body, metrics."""

from collections import Counter
from time import perf_counter
from typing import Any

from litestar import Request
from litestar.types import ASGIApp, Message, Receive, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, RatePolicy, Unavailable
from penstock.base.metrics import LoopHistogram
from penstock.base.networks import TrustedNetworks, client_network
from penstock.base.request_ids import REQUEST_ID, request_id_of
from penstock.edge.connections import REFUSALS
from penstock.http.body_memory import SCOPE_KEY, BodyMemory, HeldBody
from penstock.http.problems import problem_of, rate_headers
from penstock.http.rate_limiter import RateLimiter
from penstock.http.requests import AnyRequest
from penstock.settings import Settings

_WINDOW_S = 10
_NAMES = frozenset((b"x-request-id", b"x-forwarded-for", b"x-forwarded-proto"))
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_HEADERS: list[tuple[bytes, bytes]] = []
_SECONDS = LoopHistogram(
    "penstock_http_request_seconds",
    "Time from the end of a request's headers to the end of its answer.",
    ["method", "route", "status"],
)


class AddressBudget:
    """Requests of one client address: how many per second, and how many at once.

    Clients of a trusted proxy count by the address that it names. What a trusted proxy asks on its
    own behalf counts for nobody.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._is_proxy = TrustedNetworks(settings.trusted_proxies).__contains__
        self._limit_at_once = settings.address_connections
        self._rates = RateLimiter(
            RatePolicy(
                "address",
                quota=settings.address_requests_per_second * _WINDOW_S,
                window_s=_WINDOW_S,
                counted="requests from this address",
            )
        )
        self._at_once: Counter[str] = Counter()

    def enter(self, address: str) -> tuple[str, list[tuple[bytes, bytes]]]:
        """The key to leave with, empty if nothing was counted, and headers of the answer.

        `RateLimited`, or `Unavailable` when too many requests of the address are under way.
        """
        if not address or self._is_proxy(address):
            return "", _NO_HEADERS
        key = client_network(address)
        quota = self._rates.count(key, self._clock())
        if self._at_once[key] >= self._limit_at_once:
            raise Unavailable(
                "Too many requests from this address are in progress. Try again in a moment.",
                code="too_many_connections",
                retry_after_s=1,
            )
        self._at_once[key] += 1
        return key, rate_headers(self._rates.policy, quota.left, quota.reset_s)

    def leave(self, key: str) -> None:
        self._at_once[key] -= 1
        if not self._at_once[key]:
            del self._at_once[key]

    def requests_in_progress(self) -> int:
        """Requests of all addresses that count."""
        return self._at_once.total()


class EdgeLayer:
    """ASGI middleware: sets `scope["client"]` to the client that trusted proxies name."""

    def __init__(
        self, app: ASGIApp, budget: AddressBudget, bodies: BodyMemory, trusted_proxies: str
    ) -> None:
        self._app, self._budget, self._bodies = app, budget, bodies
        # uvicorn and litestar have types of their own for the same interface
        serve: Any = self._serve
        self._serve_proxied: Any = ProxyHeadersMiddleware(serve, trusted_hosts=trusted_proxies)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id, is_forwarded = None, False
        for name, value in scope["headers"]:
            if name in _NAMES:
                if name == b"x-request-id":
                    sent_id = value
                else:
                    is_forwarded = True
        REQUEST_ID.set(request_id_of(sent_id))  # of this task alone
        await (self._serve_proxied if is_forwarded else self._serve)(scope, receive, send)

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        began_s, status = perf_counter(), 0
        headers = [_NOSNIFF, (b"x-request-id", REQUEST_ID.get().encode())]
        key, rate = "", _NO_HEADERS
        body: HeldBody | None = None

        # No coroutine of its own: it returns that of `send`.
        def send_with_headers(message: Message) -> Any:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # A 429 says which quota is used up: not this one, if its own headers are there.
                budget = rate if status != 429 else _NO_HEADERS
                message["headers"] = [*message["headers"], *headers, *budget]
            elif body is not None and not message.get("more_body"):
                body.release()  # First: with its answer the client may send the next one.
            return send(message)

        try:
            client = scope["client"]
            key, rate = self._budget.enter(client[0] if client else "")
            body = scope[SCOPE_KEY] = HeldBody(self._bodies, key)
            await self._app(scope, receive, send_with_headers)
        except PenstockError as error:  # of the budget: the application answers its own
            REFUSALS.labels(f"address_{error.code}").inc()
            request: AnyRequest = Request(scope)
            response = problem_of(request, error).to_asgi_response(app=None, request=request)
            await response(scope, receive, send_with_headers)
        finally:
            if body is not None:
                body.release()
            if key:
                self._budget.leave(key)
            route = scope.get("path_template") or "none"
            _SECONDS.observe((scope["method"], route, status), perf_counter() - began_s)
