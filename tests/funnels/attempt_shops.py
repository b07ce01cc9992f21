"""Twelve made shops, each with a planted answer: the key that tells its journeys apart.

They were written before the ranking. Each also has keys that look like an attempt ID and are none.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.funnels.reference import Event

HOUR_S, DAY_S = 3_600, 86_400
VISITORS, DAYS = 60, 40


@dataclass
class Shop:
    """A shop that is being filled with events.

    steps: rows of its funnel. answer: the planted keys. traps: keys that must never be proposed.
    merges: merged visitor -> canonical visitor.
    """

    name: str
    steps: tuple[str, ...]
    answer: list[str]
    traps: tuple[str, ...] = ()
    window_s: int = 7 * DAY_S
    events: list[Event] = field(default_factory=list)
    merges: dict[str, str] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(52))

    def __post_init__(self) -> None:
        self.random.seed(self.name)

    def id(self, prefix: str = "") -> str:
        return f"{prefix}{self.random.getrandbits(64):016x}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def send(self, at_s: float, name: str, visitor: str, /, **more: Any) -> None:
        """Add an event. more: `session_id`, `source` and `verified`; the others are properties."""
        own = {key: more.pop(key) for key in ("session_id", "source", "verified") if key in more}
        number, kind = len(self.events), "transaction" if name.startswith("tx_") else "event"
        self.events.append(
            Event(f"{number:08}", "", kind, name, round(at_s * 1000), visitor, "", **own,
                  properties=more)
        )  # fmt: skip

    def visits(self, visitors: int = VISITORS, limit: int = 4) -> Iterator[tuple[str, float]]:
        """Yield visitors with the times of their visits, which are days apart."""
        for number in range(visitors):
            for day in self.random.sample(range(DAYS), self.random.randint(1, limit)):
                yield f"v{number}", day * DAY_S + self.random.random() * HOUR_S

    def walk(self, at_s: float, visitor: str, going_on: float, /, **properties: Any) -> None:
        """Send the steps in order, until the visitor leaves. Properties may be functions."""
        for step in self.steps:
            values = {key: each() if callable(each) else each for key, each in properties.items()}
            self.send(at_s, step, visitor, **values)
            if not self.chance(going_on):
                return
            at_s += self.random.uniform(5, 900)


def carts() -> Shop:
    shop = Shop("carts", ("cart_viewed", "checkout", "purchase"), ["cart_id"], ("customer_id",))
    for visitor, at_s in shop.visits():
        shop.walk(at_s, visitor, 0.7, cart_id=shop.id("c-"), customer_id=f"u{visitor}",
                  plan=shop.random.choice(["pro", "free"]), path_seen="/cart")  # fmt: skip
    return shop


def provider() -> Shop:
    """Orders whose payment the provider reports, a tenth of them without a verified visitor."""
    shop = Shop("provider", ("checkout", "submitted", "tx_payment"), ["order_no"])
    for visitor, at_s in shop.visits():
        order, payment = shop.random.randrange(10**6, 10**7), shop.id("pi_")
        shop.send(at_s, "checkout", visitor, order_no=order)
        if shop.chance(0.8):
            shop.send(at_s + 60, "submitted", visitor, order_no=order, payment_id=payment)
            if shop.chance(0.8):
                shop.send(at_s + 300, "tx_payment", visitor, source="provider",
                          verified=shop.chance(0.9), order_no=str(order), payment_id=payment,
                          provider="stripe")  # fmt: skip
    return shop


def tabs() -> Shop:
    """Products are opened in several tabs, and the checkout happens in another one."""
    shop = Shop("tabs", ("product_opened", "added", "checkout", "purchase"), ["basket"])
    for visitor, at_s in shop.visits():
        basket, opened = shop.id(), [shop.id("t") for _ in range(shop.random.randint(1, 4))]
        for position, tab in enumerate(opened):
            shop.send(at_s + 20 * position, "product_opened", visitor, basket=basket, tab=tab)
        if shop.chance(0.7):
            shop.send(at_s + 120, "added", visitor, basket=basket, tab=shop.random.choice(opened))
            if shop.chance(0.7):
                tab = shop.id("t")
                shop.send(at_s + 200, "checkout", visitor, basket=basket, tab=tab)
                shop.send(at_s + 260, "purchase", visitor, basket=basket, tab=tab)
    return shop


def retries() -> Shop:
    """A payment that failed is tried again under a new payment ID."""
    shop = Shop("retries", ("checkout", "pay_submitted", "paid"), ["checkout_ref"])
    for visitor, at_s in shop.visits():
        checkout, payment = shop.id("co_"), shop.id("pay_")
        shop.send(at_s, "checkout", visitor, checkout_ref=checkout, payment_id=payment)
        for turn in range(shop.random.randint(0, 4)):
            if turn:
                payment = shop.id("pay_")
            ids = {"checkout_ref": checkout, "payment_id": payment, "request": shop.id()}
            shop.send(at_s + 100 * turn + 30, "pay_submitted", visitor, **ids)
            if shop.chance(0.4):
                shop.send(at_s + 100 * turn + 60, "paid", visitor, **ids)
                break
    return shop


def shared_devices() -> Shop:
    """Terminals in shops, which all number their tickets from 1."""
    shop = Shop("shared devices", ("started", "chosen", "paid"), ["$visitor", "ticket"],
                ("terminal",))  # fmt: skip
    for number in range(6):
        for ticket in range(1, 60):
            shop.walk(ticket * 7_000 + number, f"terminal-{number}", 0.75, ticket=ticket,
                      terminal=f"T{number}")  # fmt: skip
    return shop


def sessions() -> Shop:
    """A quiz without an ID, which one visitor takes several times."""
    shop = Shop("sessions", ("quiz_started", "answered", "quiz_done"), ["$session"], ("member_no",))
    for visitor, at_s in shop.visits(limit=6):
        shop.walk(at_s, visitor, 0.7, session_id=shop.id("s"), member_no=visitor,
                  score=lambda: shop.random.randint(0, 100))  # fmt: skip
    return shop


def later_steps() -> Shop:
    """An order ID that exists from step 2, beside a cart ID that some events lack."""
    shop = Shop("later steps", ("cart", "address", "shipping", "ordered"), ["cart_uuid"])
    for visitor, at_s in shop.visits():
        cart, order = shop.id(), shop.id("o")
        for position, step in enumerate(shop.steps):
            ids = {"order_id": order} if position else {}
            if shop.chance(0.92):
                ids["cart_uuid"] = cart
            shop.send(at_s + 60 * position, step, visitor, session_id="", **ids)
            if not shop.chance(0.8):
                break
    return shop


def id_per_event() -> Shop:
    shop = Shop("an ID per event", ("applied", "checked", "granted"), ["application"],
                ("message_id", "trace_id"))  # fmt: skip
    for visitor, at_s in shop.visits():
        shop.walk(at_s, visitor, 0.7, application=shop.id("app-"), message_id=shop.id,
                  trace_id=shop.id)  # fmt: skip
    return shop


def user_ids() -> Shop:
    """Users with two visitors each, and quotes that some events lack."""
    shop = Shop("user IDs", ("quote_opened", "quote_signed", "policy_paid"), ["quote"],
                ("acct", "household"))  # fmt: skip
    for visitor, at_s in shop.visits(limit=5):
        user = int(visitor[1:]) // 2
        if visitor != f"v{2 * user}":
            shop.merges[visitor] = f"v{2 * user}"
        quote = shop.id("q")
        shop.walk(at_s, visitor, 0.75, acct=f"A{user:06}", household=f"H{user // 2:06}",
                  quote=lambda quote=quote: quote if shop.chance(0.95) else None)  # fmt: skip
    return shop


def device_ids() -> Shop:
    """Apps that send the ID of the device with each event, under names that do not say so."""
    shop = Shop("device IDs", ("upload_began", "upload_sent", "upload_shared"), ["upload"],
                ("hw", "install_id", "device_id"))  # fmt: skip
    for visitor, at_s in shop.visits(limit=6):
        if int(visitor[1:]) % 3 == 1:
            shop.merges[visitor] = f"v{int(visitor[1:]) - 1}"
        shop.walk(at_s, visitor, 0.7, hw=f"{visitor}-hw", install_id=f"{visitor}-in",
                  device_id=f"{visitor}-de", upload=shop.id("up"))  # fmt: skip
    return shop


def reused_ids() -> Shop:
    """Slip numbers that begin again every two months, beside bookings that some events lack."""
    shop = Shop("reused IDs", ("reserved", "seated", "paid"), ["booking"])
    for number in range(240):
        booking, visitor = f"b-{number:05}", f"v{shop.random.randrange(90)}"
        shop.walk(number * 0.8 * DAY_S, visitor, 0.8, slip=1 + number % 70,
                  booking=lambda own=booking: own if shop.chance(0.94) else None)  # fmt: skip
    return shop


def renewals() -> Shop:
    """Subscriptions with an invoice each month, some of which need several charges."""
    shop = Shop("renewals", ("invoice_created", "charge_tried", "charge_paid"), ["invoice"],
                ("payer",), window_s=14 * DAY_S)  # fmt: skip
    for number in range(50):
        subscription = shop.id("sub_")
        for month in range(shop.random.randint(1, 6)):
            at_s, visitor = month * 30 * DAY_S + number * 600, f"v{number}"
            ids = {"invoice": shop.id("in_"), "subscription": subscription, "payer": f"P{number}"}
            shop.send(at_s, "invoice_created", visitor, source="server", **ids)
            for turn in range(shop.random.randint(0, 3)):
                charge = {"charge": shop.id("ch_")}
                shop.send(at_s + DAY_S * turn + 60, "charge_tried", visitor, **ids, **charge)
                if shop.chance(0.7):
                    shop.send(at_s + DAY_S * turn + 90, "charge_paid", visitor, **ids, **charge)
                    break
    return shop


SHOPS: Mapping[str, Callable[[], Shop]] = {
    make.__name__: make
    for make in (
        carts, provider, tabs, retries, shared_devices, sessions, later_steps, id_per_event,
        user_ids, device_ids, reused_ids, renewals,
    )
}  # fmt: skip
