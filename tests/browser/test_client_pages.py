"""`/t.js` in Chromium on pages of every kind: none can break it, and it breaks none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from tests.browser.conftest import Account, patient
from tests.records import new_website
from tests.waiting import eventually

SITE = "https://shop.example"
Json = dict[str, Any]


class Shop:
    """A made-up site with the script, what its pages send, and what their console says."""

    def __init__(self, context: BrowserContext, account: Account) -> None:
        self.context, self.account = patient(context), account
        self.website_id = new_website(account.client)
        self.src = f"{account.url}/t.js"
        self.said: list[str] = []
        self.errors: list[str] = []
        self.sent: list[Json] = []
        self.html = ""
        context.route(f"{SITE}/**", self._serve)
        context.route("**/api/track", self._note)

    def _serve(self, route: Route) -> None:
        route.fulfill(body=self.html, content_type="text/html")

    def _note(self, route: Route) -> None:
        body = json.loads(route.request.post_data or "")
        self.sent += body.get("events", [body])
        route.continue_()

    def open(
        self, path: str = "/", *, before: str = "", attributes: str = "", tag: str = ""
    ) -> Page:
        """before: a script of the page that runs before `/t.js`."""
        usual = f'<script src="{self.src}" data-website="{self.website_id}" {attributes}></script>'
        self.html = f"<title>Shop</title><script>{before}</script>{tag or usual}"
        page = self.context.new_page()
        page.on("console", lambda line: self.said.append(line.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(SITE + path)
        return page

    def flush(self, page: Page, until: int = 0) -> None:
        """Send the events of a page. until: number of stored events to wait for."""
        page.evaluate("penstock.flush()")
        self.until_stored(until)

    def stored(self) -> list[Json]:
        """Stored events, oldest first."""
        query = {"websiteId": self.website_id}
        recent = self.account.client.get("/api/events/recent", params=query).json()["data"]
        return list(reversed(recent))

    def names(self) -> list[str]:
        return [event["name"] for event in self.stored()]

    def until_stored(self, count: int) -> None:
        eventually(lambda: len(self.stored()) >= count)


@pytest.fixture
def shop(context: BrowserContext, account: Account) -> Iterator[Shop]:
    shop = Shop(context, account)
    yield shop
    assert shop.errors == []


def test_a_prerendered_page_sends_nothing_until_it_is_shown(shop: Shop) -> None:
    hidden = "Object.defineProperty(document, 'prerendering', {value: true, writable: true});"
    page = shop.open(before=hidden)
    page.evaluate("penstock.track('early')")
    page.wait_for_timeout(600)
    assert page.evaluate("Object.keys(localStorage)") == []
    assert shop.sent == []
    page.evaluate(
        "document.prerendering = false;"
        "document.dispatchEvent(new Event('prerenderingchange')); penstock.flush()"
    )
    shop.until_stored(2)
    assert sorted(shop.names()) == ["/", "early"]


def test_a_page_of_the_back_forward_cache_is_a_new_view(shop: Shop) -> None:
    page = shop.open("/cart")
    for persisted in ("false", "true"):
        event = f"new PageTransitionEvent('pageshow', {{persisted: {persisted}}})"
        page.evaluate(f"dispatchEvent({event})")
    shop.flush(page, 2)
    assert shop.names() == ["/cart", "/cart"]


@pytest.mark.parametrize(
    ("attributes", "names"),
    [("", ["/app"]), ("data-hash-routes", ["/app", "/app/cart", "/app/pay"])],
)
def test_hash_routes_are_pages_by_option(shop: Shop, attributes: str, names: list[str]) -> None:
    page = shop.open("/app/", attributes=attributes)
    page.evaluate("location.hash = '#/cart'")
    page.wait_for_timeout(100)
    page.evaluate("history.pushState({}, '', '#!/pay?step=1')")
    shop.flush(page, len(names))
    assert shop.names() == names


def test_a_long_address_referrer_and_title_are_cut_and_lose_no_event(shop: Shop) -> None:
    page = shop.open(before=r"document.title = '\u00e4'.repeat(2699) + '\ud83d\ude00'.repeat(9)")
    address = f"/{'p' * 3_000}?{'x' * 9_000}&utm_source=mail&{'y' * 9_000}"
    for path in (address, "/next"):
        page.evaluate("(path) => history.pushState({}, '', path)", path)
    shop.flush(page, 3)
    first, long, last = shop.sent
    assert first["title"] == "ä" * 2_699 + "…"
    assert (long["url"], long["url"][-1]) == (f"{SITE}{address}"[:16_000] + "…", "…")
    assert "utm_source=mail" in long["url"]
    assert last["referrer"] == f"{SITE}{address}"[:2_700] + "…"
    assert shop.names() == ["/", "/" + "p" * 1_998 + "…", "/next"]


OTHER_VALUES = pytest.mark.full("other values")

ODD_VALUES = {
    "circular": "(() => { const value = {}; value.self = value; return value; })()",
    "BigInt": "10n",
    "window": "window",
    "document": "document",
    "getter": "({ get bad() { throw new Error('no'); } })",
    "surrogate": "'\\ud800'",
    "NUL": "'a\\0b'",
    "long": "'x'.repeat(9000)",
    "deep": "[[[[[[1]]]]]]",
    "wide": "Object.fromEntries([...Array(300).keys()].map((key) => [key, 1]))",
    "integer": "1e20",
    "symbol": "Symbol('s')",
    "function": "() => 1",
    "toJSON": "({ toJSON() { throw 1; } })",
}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            value,
            id=name,
            marks=() if name in ("circular", "BigInt", "getter", "long") else OTHER_VALUES,
        )
        for name, value in ODD_VALUES.items()
    ],
)
def test_an_event_is_sent_without_a_value_that_it_cannot_have(shop: Shop, value: str) -> None:
    page = shop.open()
    page.evaluate(f"""async () => {{
      const odd = {value};
      penstock.track("a", {{ plan: "pro", odd }});
      penstock.page({{ plan: "pro", odd }});
      penstock.transaction("b", {{ id: "t", amount: 5, properties: {{ plan: "pro", odd }} }});
      penstock.attempt("c", {{ property: "checkoutId" }}).track("c", {{ plan: "pro", odd }});
      penstock.identify("u-1", {{ plan: "pro", odd }});
      await penstock.flush();
    }}""")
    shop.until_stored(5)
    with_plan = [event for event in shop.sent if event.get("properties")]
    assert [event["properties"]["plan"] for event in with_plan] == ["pro"] * 4
    assert not [event for event in shop.sent if "odd" in event.get("properties", {})]
    assert "penstock: sent without odd, which is no JSON or over a limit" in shop.said


CALLS = (
    "track()", "track('a', window)", "track('a', { get bad() { throw 1; } })",
    "transaction('b', null)", "identify(window)",
)  # fmt: skip
OTHER_CALLS = (
    "track({})", "track(window)", "track('a', null)",
    "track('a', 'pro')", "track('a', new Proxy({}, { ownKeys() { throw 1; } }))",
    "track('a', { $a: 1, '': 1 })", "transaction('b', { id: 5n, amount: 1n })",
    "identify('u', 1, null)", "page(1)", "send(null)", "attempt('c')", "consent({})",
)  # fmt: skip


@pytest.mark.parametrize(
    "call", [*CALLS, *(pytest.param(call, marks=OTHER_VALUES) for call in OTHER_CALLS)]
)
def test_no_call_throws_into_the_page_and_later_events_are_stored(shop: Shop, call: str) -> None:
    page = shop.open()
    page.evaluate(f"() => {{ penstock.{call}; penstock.consent('granted'); }}")
    page.evaluate("penstock.track('last')")
    shop.flush(page)
    eventually(lambda: "last" in shop.names())


def test_methods_work_without_their_object(shop: Shop) -> None:
    page = shop.open()
    page.evaluate("""async () => {
      const { track, transaction, flush } = penstock;
      track("a");
      transaction("b");
      const { track: step } = penstock.attempt("c", { property: "checkoutId" });
      step("c");
      await flush();
    }""")
    shop.until_stored(4)
    assert sorted(shop.names()) == ["/", "a", "b", "c"]


OLD_PROTOTYPE = """
String.prototype.toJSON = function () { return '"' + this + '"'; };
Number.prototype.toJSON = function () { return isFinite(this) ? this.toString() : 'null'; };
Array.prototype.toJSON = function () { return '[' + this.map(Object.toJSON).join(', ') + ']'; };
Object.toJSON = (value) => value.toJSON ? value.toJSON() : String(value);
"""


def test_events_are_stored_beside_an_old_prototype_js(shop: Shop) -> None:
    page = shop.open(before=OLD_PROTOTYPE)
    page.evaluate("penstock.track('a', { items: ['x', 1], plan: 'pro' })")
    shop.flush(page, 2)
    assert shop.sent[-1]["properties"] == {"items": ["x", 1], "plan": "pro"}
    assert page.evaluate("JSON.stringify(['a']) !== '[\"a\"]'"), "the page's own code stays"


@pytest.mark.parametrize(
    "before",
    [
        "Object.prototype.visitorId = 'everybody';"
        "Object.prototype.consent = 'denied'; Object.prototype.extend = function () {};",
        "Math.random = () => 0.5; delete Crypto.prototype.randomUUID;",
    ],
    ids=["Object.prototype", "Math.random"],
)
def test_visitors_stay_apart_on_pages_that_change_the_language(
    browser: Any, account: Account, before: str
) -> None:
    visitors = set()
    for _ in range(2):
        with browser.new_context() as context:
            shop = Shop(context, account)
            page = shop.open(before=before)
            page.evaluate("penstock.track('a')")
            shop.flush(page, 2)
            assert shop.errors == []
            visitors.add(page.evaluate("penstock.visitorId"))
            assert len({event["dedupeKey"] for event in shop.sent}) == len(shop.sent)
    assert len(visitors) == 2


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ('<script src="{src}"></script>', "data-website"),
        ('<script type="module" src="{src}" data-website="web_1"></script>', "type=module"),
        ('<script src="{src}" data-website="w" data-host="penstock.example"></script>', "https://"),
    ],
    ids=["no website", "module", "no scheme"],
)
def test_the_console_says_what_is_missing(shop: Shop, tag: str, said: str) -> None:
    shop.open(tag=tag.format(src=shop.src))
    eventually(lambda: any(said in line for line in shop.said if line.startswith("penstock: ")))


def test_the_next_page_sends_at_once_what_a_beacon_could_not(shop: Shop) -> None:
    """Chromium refuses beacons beyond 64 KB."""
    page = shop.open()
    shop.flush(page)
    shop.context.set_offline(True)
    page.evaluate("""() => {
      for (let n = 0; n < 40; n += 1) penstock.track(`e${n}`, { text: "x".repeat(4000) });
      dispatchEvent(new PageTransitionEvent("pagehide"));
    }""")
    page.close()
    shop.context.set_offline(False)
    page = shop.open("/next")
    page.wait_for_timeout(500)
    shop.flush(page)
    left = "Object.keys(localStorage).filter((key) => key.startsWith('penstock.event.')).length"
    assert page.evaluate(left) <= 13, "what the beacon had is sent again later"
    eventually(lambda: len(shop.stored()) >= 20)
