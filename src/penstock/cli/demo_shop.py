"""The demo's shop: about 20,000 believable events of its website and its app over the last 30 days, the same at every run.

Journeys are told as the shop's trackers and backend would tell them, with what real ones bring along: equal timestamps with and without
sequence numbers, deliveries sent twice, attempts that pause and resume, are given up and started anew, visitors who are anonymous first and
log in later, payments that fail.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

VISITORS = 3_700
DAYS = 30
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000

DESKTOP = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148"
APP = "AcmeApp/4.2 (iPhone; iOS 18.5)"

_COUNTRIES = (("NL", 40), ("DE", 25), ("FR", 15), ("US", 12), ("JP", 8))
_CAMPAIGNS = ((None, 50), ("newsletter", 20), ("search", 20), ("partner", 10))
_PLANS = (("basic", 60), ("plus", 30), ("business", 10))
_PRODUCTS = ("teapot", "kettle", "cup", "tray", "tea-caddy", "strainer")


class Route(StrEnum):
    """How an event is told."""

    TRACK = "track"
    EVENT = "event"
    TRANSACTION = "transaction"
    IDENTIFY = "identify"


@dataclass(frozen=True, slots=True)
class Told:
    """One body as its sender sends it. agent: User-Agent of the browser or app; the shop's own backend has none."""

    at_ms: int
    route: Route
    body: dict[str, Any]
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Shop:
    """Where the events go."""

    web_id: str
    app_id: str


def shop_events(shop: Shop, now_ms: int) -> list[Told]:
    """Everything that happened, in the order of sending."""
    random = Random(20_26)
    told = [one for number in range(VISITORS) for one in _Visitor(number, shop, now_ms, random).events()]
    past = [one for one in told if one.at_ms <= now_ms]
    return sorted(past, key=lambda one: one.at_ms)


def _pick(random: Random, choices: tuple[tuple[Any, int], ...]) -> Any:
    return random.choices([value for value, _ in choices], [weight for _, weight in choices])[0]


class _Visitor:
    """One person's month. Everything about them is drawn from `random`."""

    def __init__(self, number: int, shop: Shop, now_ms: int, random: Random) -> None:
        self.random, self.number = random, number
        self.agent: str = _pick(random, ((DESKTOP, 45), (PHONE, 25), (APP, 30)))
        self.website_id = shop.app_id if self.agent == APP else shop.web_id
        self.visitor_id, self.user_id = f"device-{number:04d}", f"customer-{number:04d}"
        self.country: str = _pick(random, _COUNTRIES)
        self.campaign: str | None = _pick(random, _CAMPAIGNS)
        self.variant: str | None = _pick(random, (("a", 49), ("b", 48), (None, 3)))
        self.plan: str = _pick(random, _PLANS)
        self.comes_at_ms = now_ms - int(random.uniform(0, DAYS) * _DAY)
        self.attempts = 0

    def events(self) -> Iterator[Told]:
        at_ms = self.comes_at_ms
        for place in self._browsing():
            yield self._seen(at_ms, place)
            at_ms += self._pause(5, 90)
        if self.random.random() < 0.62:
            yield self._seen(at_ms, "/cart")
            at_ms += self._pause(5, 60)
            if self.random.random() < 0.75:
                yield from self._checkout(at_ms)
                if self.random.random() < 0.08:
                    yield from self._other_device(at_ms + self._pause(3_600, 90_000))

    def _other_device(self, at_ms: int) -> Iterator[Told]:
        """The same customer on another device: anonymous until the login, one person from then on."""
        other = f"{self.visitor_id}-tablet"
        yield self._seen(at_ms, "/", other)
        yield self._seen(at_ms + self._pause(5, 90), "/products/cup", other)
        login = {"websiteId": self.website_id, "visitorId": other, "userId": self.user_id, "traits": {"plan": self.plan}}
        yield Told(at_ms + 2 * _MINUTE, Route.IDENTIFY, login)

    def _browsing(self) -> list[str]:
        products = [f"/products/{self.random.choice(_PRODUCTS)}" for _ in range(self.random.randint(0, 4))]
        return ["/", *products]

    def _pause(self, least_s: float, most_s: float) -> int:
        return int(self.random.uniform(least_s, most_s) * _SECOND)

    def _seen(self, at_ms: int, place: str, visitor_id: str | None = None) -> Told:
        """A page of the website, or the screen of the app that shows the same."""
        visitor_id = visitor_id or self.visitor_id
        what = {"type": "pageview", "path": place}
        if self.agent == APP:
            what = {"type": "screenview", "screen": place.strip("/").partition("/")[0] or "home"}
        elif self.campaign:
            what["utmSource"] = self.campaign
        key = {"websiteId": self.website_id, "visitorId": visitor_id, "timestamp": at_ms, "dedupeKey": f"{visitor_id}-{at_ms}"}
        return Told(at_ms, Route.TRACK, key | what, self.agent)

    # A checkout is one attempt: the backend tells its steps, each with the attempt's ID and a number that counts up.

    def _checkout(self, at_ms: int) -> Iterator[Told]:
        attempt = self._attempt(at_ms)
        yield from self._sent(attempt)
        if attempt[-1].route is not Route.TRANSACTION and self.random.random() < 0.15:  # given up, and started anew: another attempt
            yield from self._sent(self._attempt(attempt[-1].at_ms + self._pause(600, 90_000)))

    def _sent(self, told: list[Told]) -> Iterator[Told]:
        """With what a nervous network delivers twice."""
        for one in told:
            yield one
            if self.random.random() < 0.03:
                yield one

    def _attempt(self, at_ms: int) -> list[Told]:
        self.attempts += 1
        random, attempt = self.random, f"co-{self.number:04d}-{self.attempts}"
        told = [self._step(at_ms, "checkout_started", attempt, 1)]
        # Variant b fills in the address by itself: often in the same millisecond, ordered by its number alone.
        tie = random.random() < (0.25 if self.variant == "b" else 0.03)
        if random.random() < (0.12 if self.variant == "b" else 0.24):
            return told
        at_ms += 0 if tie else self._pause(20, 240)
        number = None if tie and random.random() < 0.1 else 2
        told.append(self._step(at_ms, "saved_address_used" if tie else "address_entered", attempt, number))
        if random.random() < 0.08:  # comes back another day, after an upgrade of the plan
            at_ms += self._pause(20_000, 250_000)
            self.plan = "business"
        if random.random() < 0.18:
            return told
        at_ms += self._pause(15, 200)
        if random.random() < 0.02:  # a client that lost count for a moment
            told.append(self._step(at_ms - _SECOND, "payment_submitted", attempt, 1))
        told.append(self._step(at_ms, "payment_submitted", attempt, 3))
        if random.random() < 0.14:
            reason = random.choice(("card_declined", "3ds_timeout", "insufficient_funds"))
            told.append(self._step(at_ms + 3 * _SECOND, "payment_failed", attempt, None, reason=reason))
            if random.random() < 0.45:
                return told
            at_ms += self._pause(30, 400)
        return [*told, self._purchase(at_ms + self._pause(2, 20), attempt)]

    def _purchase(self, at_ms: int, attempt: str) -> Told:
        body = self._step(at_ms, "purchase", attempt, 4).body
        paid = {"transactionId": body.pop("eventId"), "amount": round(self.random.lognormvariate(3.6, 0.5), 2), "currency": "EUR"}
        return Told(at_ms, Route.TRANSACTION, body | paid)

    def _step(self, at_ms: int, event: str, attempt: str, number: int | None, **more: Any) -> Told:
        known = {"checkout_id": attempt, "n": number, "variant": self.variant, "plan": self.plan, **more}
        body = {
            "websiteId": self.website_id,
            "visitorId": self.visitor_id,
            "userId": self.user_id,
            "externalSessionId": f"{self.visitor_id}-{at_ms // _HOUR}",
            "event": event,
            "eventId": f"{attempt}-{event}-{at_ms}",
            "timestamp": at_ms,
            "country": self.country,
            "properties": {name: value for name, value in known.items() if value is not None},
        }
        return Told(at_ms, Route.EVENT, body)


CHECKOUT_FUNNEL: dict[str, Any] = {
    "name": "Checkout",
    "countingUnit": "attempt",
    "attemptProperty": "checkout_id",
    "sequenceProperty": "n",
    "breakdownProperties": ["variant", "plan"],
    "conversionWindowSeconds": 604_800,
    "steps": [
        {"type": "Event", "value": "checkout_started"},
        {"type": "Event", "value": "address_entered", "or": [{"type": "Event", "value": "saved_address_used"}]},
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
