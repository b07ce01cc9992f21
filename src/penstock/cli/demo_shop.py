"""The demo's shop: about 20,000 realistic events on its website and app over the last 30 days.

The events look like those of real trackers and backends: equal timestamps with and without sequence
numbers, repeated deliveries, attempts that pause and resume or start again, anonymous visitors who
log in later, and failed payments. Every run sends the same events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

VISITORS = 3_700
DAYS = 30
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000

DESKTOP = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/141.0.0.0 Safari/537.36"
)
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/18.5 Mobile/15E148"
)
APP = "AcmeApp/4.2 (iPhone; iOS 18.5)"

_COUNTRIES = (("NL", 40), ("DE", 25), ("FR", 15), ("US", 12), ("JP", 8))
_CAMPAIGNS = ((None, 50), ("newsletter", 20), ("search", 20), ("partner", 10))
_PLANS = (("basic", 60), ("plus", 30), ("business", 10))
_PRODUCTS = ("teapot", "kettle", "cup", "tray", "tea-caddy", "strainer")


class Route(StrEnum):
    """The API route that receives a request."""

    TRACK = "track"
    EVENT = "event"
    TRANSACTION = "transaction"
    IDENTIFY = "identify"


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A request body with its time. agent: User-Agent of the browser or app; empty for backends."""

    at_ms: int
    route: Route
    body: dict[str, Any]
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Shop:
    """IDs of the shop's website and app."""

    web_id: str
    app_id: str


def shop_events(shop: Shop, now_ms: int, days: int = DAYS) -> list[DemoRequest]:
    """Return all requests in the order in which to send them."""
    random = Random(20_26)
    requests = [
        request
        for number in range(VISITORS * days // DAYS)
        for request in _Visitor(number, shop, now_ms, days, random).requests()
        if request.at_ms <= now_ms
    ]
    return sorted(requests, key=lambda request: request.at_ms)


def _choose(random: Random, choices: tuple[tuple[Any, int], ...]) -> Any:
    return random.choices([value for value, _ in choices], [weight for _, weight in choices])[0]


class _Visitor:
    """One person's requests in a period. random: makes all random choices."""

    def __init__(self, number: int, shop: Shop, now_ms: int, days: int, random: Random) -> None:
        self.random, self.number = random, number
        self.agent: str = _choose(random, ((DESKTOP, 45), (PHONE, 25), (APP, 30)))
        self.website_id = shop.app_id if self.agent == APP else shop.web_id
        self.visitor_id, self.user_id = f"device-{number:04d}", f"customer-{number:04d}"
        self.country: str = _choose(random, _COUNTRIES)
        self.campaign: str | None = _choose(random, _CAMPAIGNS)
        self.variant: str | None = _choose(random, (("a", 49), ("b", 48), (None, 3)))
        self.plan: str = _choose(random, _PLANS)
        self.first_visit_ms = now_ms - int(random.uniform(0, days) * _DAY)
        self.attempts = 0

    def requests(self) -> Iterator[DemoRequest]:
        at_ms = self.first_visit_ms
        for page in self._browsed_pages():
            yield self._page_view(at_ms, page)
            at_ms += self._pause(5, 90)
        if self.random.random() < 0.62:
            yield self._page_view(at_ms, "/cart")
            at_ms += self._pause(5, 60)
            if self.random.random() < 0.75:
                yield from self._checkout(at_ms)
                if self.random.random() < 0.08:
                    yield from self._other_device(at_ms + self._pause(3_600, 90_000))

    def _other_device(self, at_ms: int) -> Iterator[DemoRequest]:
        """Yield requests of the same person on another device, anonymous until the login merges the
        visitors.
        """
        other = f"{self.visitor_id}-tablet"
        yield self._page_view(at_ms, "/", other)
        yield self._page_view(at_ms + self._pause(5, 90), "/products/cup", other)
        login = {
            "websiteId": self.website_id,
            "visitorId": other,
            "userId": self.user_id,
            "traits": {"plan": self.plan},
        }
        yield DemoRequest(at_ms + 2 * _MINUTE, Route.IDENTIFY, login)

    def _browsed_pages(self) -> list[str]:
        products = [
            f"/products/{self.random.choice(_PRODUCTS)}" for _ in range(self.random.randint(0, 4))
        ]
        return ["/", *products]

    def _pause(self, min_s: float, max_s: float) -> int:
        return int(self.random.uniform(min_s, max_s) * _SECOND)

    def _page_view(self, at_ms: int, page: str, visitor_id: str | None = None) -> DemoRequest:
        """Build a request for a page view of the website, or for the matching screen of the app."""
        visitor_id = visitor_id or self.visitor_id
        fields = {"type": "pageview", "path": page}
        if self.agent == APP:
            fields = {"type": "screenview", "screen": page.strip("/").partition("/")[0] or "home"}
        elif self.campaign:
            fields["utmSource"] = self.campaign
        base = {
            "websiteId": self.website_id,
            "visitorId": visitor_id,
            "sessionId": f"{visitor_id}-1",  # each device browses once
            "timestamp": at_ms,
            "dedupeKey": f"{visitor_id}-{at_ms}",
        }
        return DemoRequest(at_ms, Route.TRACK, base | fields, self.agent)

    # A checkout is an attempt. Each of its steps has the attempt ID and a sequence number.

    def _checkout(self, at_ms: int) -> Iterator[DemoRequest]:
        attempt = self._attempt(at_ms)
        yield from self._with_repeats(attempt)
        is_abandoned = attempt[-1].route is not Route.TRANSACTION
        if is_abandoned and self.random.random() < 0.15:  # a new attempt follows
            yield from self._with_repeats(
                self._attempt(attempt[-1].at_ms + self._pause(600, 90_000))
            )

    def _with_repeats(self, requests: list[DemoRequest]) -> Iterator[DemoRequest]:
        """Yield the requests, some of them twice, as if they were retried."""
        for request in requests:
            yield request
            if self.random.random() < 0.03:
                yield request

    def _attempt(self, at_ms: int) -> list[DemoRequest]:
        self.attempts += 1
        random, attempt = self.random, f"co-{self.number:04d}-{self.attempts}"
        requests = [self._step(at_ms, "checkout_started", attempt, 1)]
        # Variant b fills in the address automatically, often in the same millisecond.
        tie = random.random() < (0.25 if self.variant == "b" else 0.03)
        if random.random() < (0.12 if self.variant == "b" else 0.24):
            return requests
        at_ms += 0 if tie else self._pause(20, 240)
        number = None if tie and random.random() < 0.1 else 2
        requests.append(
            self._step(at_ms, "saved_address_used" if tie else "address_entered", attempt, number)
        )
        if random.random() < 0.08:  # the person returns on another day, after upgrading their plan
            at_ms += self._pause(20_000, 250_000)
            self.plan = "business"
        if random.random() < 0.18:
            return requests
        at_ms += self._pause(15, 200)
        if random.random() < 0.02:  # occasionally, a client sends a wrong number
            requests.append(self._step(at_ms - _SECOND, "payment_submitted", attempt, 1))
        requests.append(self._step(at_ms, "payment_submitted", attempt, 3))
        if random.random() < 0.14:
            reason = random.choice(("card_declined", "3ds_timeout", "insufficient_funds"))
            requests.append(
                self._step(at_ms + 3 * _SECOND, "payment_failed", attempt, None, reason=reason)
            )
            if random.random() < 0.45:
                return requests
            at_ms += self._pause(30, 400)
        return [*requests, self._purchase(at_ms + self._pause(2, 20), attempt)]

    def _purchase(self, at_ms: int, attempt: str) -> DemoRequest:
        body = self._step(at_ms, "purchase", attempt, 4).body
        payment = {
            "transactionId": body.pop("eventId"),
            "amount": round(self.random.lognormvariate(3.6, 0.5), 2),
            "currency": "EUR",
        }
        return DemoRequest(at_ms, Route.TRANSACTION, body | payment)

    def _step(
        self, at_ms: int, event: str, attempt: str, number: int | None, **more: Any
    ) -> DemoRequest:
        properties = {
            "checkout_id": attempt,
            "n": number,
            "variant": self.variant,
            "plan": self.plan,
            **more,
        }
        body = {
            "websiteId": self.website_id,
            "visitorId": self.visitor_id,
            "userId": self.user_id,
            "externalSessionId": f"{self.visitor_id}-{at_ms // _HOUR}",
            "event": event,
            "eventId": f"{attempt}-{event}-{at_ms}",
            "timestamp": at_ms,
            "country": self.country,
            "properties": {name: value for name, value in properties.items() if value is not None},
        }
        return DemoRequest(at_ms, Route.EVENT, body)


CHECKOUT_FUNNEL: dict[str, Any] = {
    "name": "Checkout",
    "countingUnit": "attempt",
    "attemptProperty": "checkout_id",
    "sequenceProperty": "n",
    "breakdownProperties": ["variant", "plan"],
    "conversionWindowSeconds": 604_800,
    "steps": [
        {"type": "Event", "value": "checkout_started"},
        {
            "type": "Event",
            "value": "address_entered",
            "or": [{"type": "Event", "value": "saved_address_used"}],
        },
        {"type": "Event", "value": "payment_submitted"},
        {"type": "Event", "value": "payment_failed", "diagnostic": True},
        {"type": "Transaction", "value": "purchase"},
    ],
}

VISIT_FUNNEL: dict[str, Any] = {
    "name": "From the home page to a purchase",
    "breakdownProperties": ["$utm_source"],
    "conversionWindowSeconds": 1_209_600,
    "steps": [
        {"type": "Pageview", "value": "/"},
        {"type": "Pageview", "value": "/products/*"},
        {"type": "Pageview", "value": "/cart"},
        {"type": "Transaction", "value": "purchase"},
    ],
}
