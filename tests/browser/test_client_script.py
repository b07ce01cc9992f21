"""`/t.js` in Chromium: what a page sends, and that nothing is lost or doubled on a bad network."""

import os
import random
import time
from collections import Counter
from contextlib import suppress

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route
from playwright.sync_api import Error as PlaywrightError

from tests.browser.conftest import Account, patient, serve_html
from tests.cases import full_except
from tests.records import new_website, recent_names
from tests.stopped_store import rows_of
from tests.tiers import TIER, Tier
from tests.waiting import PATIENCE_S, eventually

EVENTS = int(os.environ.get("PENSTOCK_CLIENT_EVENTS", "300" if TIER is Tier.FULL else "100"))
SITE = "http://shop.localhost"
DAY_MS = 24 * 3_600_000
STORED = "SELECT name, toUnixTimestamp64Milli(occurred_at) FROM events WHERE kind = 'event'"
WAITS = "Events wait. Check host, website, key and firewall."
SET_CLOCK = "{ const now = Date.now; Date.now = () => now() + (%d) }"
WITHOUT_TIME = """
Object.keys(localStorage).filter((key) => key.startsWith('penstock.event.'))
  .map((key) => JSON.parse(localStorage.getItem(key)))
  .filter(({ at }) => at.offset === undefined || Math.abs(at.change) > 2000)
  .map(({ body }) => body.name)
"""
"""Events that wait without knowing the server's time: no answer has come since their page was
opened, or since the clock was set."""


def test_the_script_is_served_small_fresh_and_immutable(shared_service) -> None:
    script = shared_service.client.get("/t.js", headers={"Accept-Encoding": "gzip"})
    assert script.status_code == 200
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["access-control-allow-origin"] == "*"
    assert int(script.headers["content-length"]) <= 5632
    assert script.headers["cache-control"] == "public, max-age=300"
    tag = script.headers["etag"]
    unchanged = shared_service.client.get("/t.js", headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    named = shared_service.client.get(f"/t-{tag.strip('W/')[1:-1]}.js")
    assert named.text == script.text
    assert "immutable" in named.headers["cache-control"]
    assert shared_service.client.get("/t-000000000000.js").status_code == 404


class Site:
    """A made-up site with the script in its pages. Its calls can be refused, cut or lost."""

    def __init__(self, context: BrowserContext, service_url: str, website_id: str) -> None:
        self.context = patient(context)
        self.trouble = random.Random(0)
        self.troubled_share = 0.0
        self.longest_call_s, self._began_s = 0.0, dict[Request, float]()
        self.clock_ms = 0
        tag = f'<script src="{service_url}/t.js" data-website="{website_id}"></script>'
        context.route(
            f"{SITE}/**",
            lambda route: route.fulfill(
                body=f"<html><head><title>Shop</title>{self._clock_of_device()}{tag}</head></html>",
                content_type="text/html",
            ),
        )
        context.route("**/api/track", self._forward)
        context.on("request", self._note_begin)
        context.on("requestfinished", self._note_end)

    def set_clock(self, ms: int) -> None:
        """Of the device: all tabs, and those that are opened later."""
        self.clock_ms += ms
        for tab in self.context.pages:
            tab.evaluate(SET_CLOCK % ms)

    def _clock_of_device(self) -> str:
        return f"<script>{SET_CLOCK % self.clock_ms}</script>"

    def _note_begin(self, request: Request) -> None:
        self._began_s[request] = time.monotonic()

    def _note_end(self, request: Request) -> None:
        took_s = time.monotonic() - self._began_s.pop(request)
        self.longest_call_s = max(self.longest_call_s, took_s)

    def _forward(self, route: Route) -> None:
        cors = {"access-control-allow-origin": "*", "access-control-expose-headers": "Retry-After"}
        kind = self.trouble.random() / self.troubled_share if self.troubled_share else 1.0
        with suppress(PlaywrightError):  # The tab is gone.
            if kind < 0.25:
                route.fulfill(status=503, headers=cors, body="{}")
            elif kind < 0.5:
                route.fulfill(status=429, headers=cors | {"Retry-After": "1"}, body="{}")
            elif kind < 0.75:
                route.abort("connectionreset")
            elif kind < 1:
                route.fetch()
                route.abort("connectionreset")  # Stored, but the answer is cut.
            else:
                route.continue_()

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.goto(SITE + path)
        return page


def waiting(page: Page) -> int:
    return page.evaluate(
        "Object.keys(localStorage).filter((key) => key.startsWith('penstock.event.')).length"
    )


def until_sent(page: Page, *, at_most: int = 0) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while waiting(page) > at_most:
        assert time.monotonic() < deadline, f"{waiting(page)} events still wait"
        page.evaluate("penstock.wake()")
        page.wait_for_timeout(200)


NO_NAVIGATION_API = "Object.defineProperty(window, 'navigation', { value: undefined })"
QUEUED = """
Object.keys(localStorage).filter((key) => key.startsWith('penstock.event.')).sort()
  .map((key) => JSON.parse(localStorage.getItem(key)))
  .map(({ at, body }) => [body.name ?? body.path ?? new URL(body.url).pathname, at.wall])
"""


@pytest.mark.parametrize(
    ("init_script", "attributes", "navigate", "path"),
    [
        ("", "", "history.pushState({}, '', '/cart')", "/cart"),
        (NO_NAVIGATION_API, "", "history.pushState({}, '', '/cart')", "/cart"),
        (NO_NAVIGATION_API, "data-hash-routes", "location.hash = '/cart'", "/cart"),
    ],
)
def test_the_page_view_of_a_navigation_comes_before_the_events_that_follow_it(
    context, account, init_script, attributes, navigate, path
) -> None:
    context.add_init_script(init_script)
    page = opened(context, account, attributes)
    page.evaluate(f"{navigate}; penstock.track('cart_seen'); penstock.track('cart_paid')")
    (*_, (view, viewed), (first, seen), (second, paid)) = page.evaluate(QUEUED)
    assert [view, first, second] == [path, "cart_seen", "cart_paid"]
    assert viewed < seen < paid


def test_events_of_one_site_never_have_the_same_time(context, account) -> None:
    """Neither those of a burst, nor those of two tabs and of a reload right after it."""
    tabs = [opened(context, account), opened(context, account)]
    tabs[0].evaluate("for (let n = 0; n < 300; n += 1) penstock.track(`burst-${n}`)")
    tabs[1].evaluate("penstock.track('of the other tab')")
    tabs[0].reload()
    tabs[0].evaluate("penstock.track('after the reload')")
    queued = tabs[0].evaluate(QUEUED)
    names = [name for name, _ in queued if name != "/"]
    assert names[300:] == ["of the other tab", "after the reload"]
    assert len({at for _, at in queued}) == len(queued) == 305


def opened(context: BrowserContext, account: Account, attributes: str = "", csp: str = "") -> Page:
    """A page with the script, in a site of its own."""
    tag = f'<script src="{account.url}/t.js" data-website="web_unknown" {attributes}></script>'
    headers = {"Content-Security-Policy": csp} if csp else {}
    serve_html(context, f"{SITE}/**", tag, **headers)
    page = patient(context).new_page()
    page.goto(SITE)
    return page


def test_a_strict_policy_needs_only_the_host_in_script_src_and_connect_src(
    context, account
) -> None:
    csp = f"default-src 'none'; script-src {account.url}; connect-src {account.url}"
    page = opened(context, account, csp=csp)
    with page.expect_response("**/api/track") as answer:
        page.evaluate("penstock.flush()")
    assert answer.value.status == 202


@pytest.mark.parametrize(
    ("signal", "option"),
    [
        ("doNotTrack", "data-respect-do-not-track"),
        pytest.param(
            "globalPrivacyControl",
            'data-respect-global-privacy-control="true"',
            marks=pytest.mark.full("another signal"),
        ),
    ],
)
@pytest.mark.parametrize("is_respected", [True, False])
def test_a_browser_that_asks_not_to_be_tracked_is_left_alone_where_a_site_wants_that(
    context, account, signal, option, *, is_respected
) -> None:
    value = "'1'" if signal == "doNotTrack" else "true"
    context.add_init_script(f"Object.defineProperty(navigator, '{signal}', {{value: {value}}})")
    page = opened(context, account, option if is_respected else "")
    keys = page.evaluate("penstock.track('seen') ?? Object.keys(localStorage)")
    assert (keys == []) == is_respected


def test_a_host_may_have_a_path(context, account) -> None:
    """As where a proxy has Penstock behind https://shop.example/penstock/."""
    host = f"{SITE}/penstock"
    bodies = {
        f"{SITE}/": f'<script src="{host}/t.js" data-website="web_unknown"></script>',
        f"{host}/t.js": account.client.get("/t.js").text,
    }
    types = {f"{SITE}/": "text/html", f"{host}/t.js": "text/javascript"}

    def serve(route: Route) -> None:
        url = route.request.url
        route.fulfill(body=bodies.get(url, ""), content_type=types.get(url, "text/plain"))

    context.route(f"{SITE}/**", serve)
    page = patient(context).new_page()
    with page.expect_request(lambda request: request.resource_type == "fetch") as call:
        page.goto(SITE)
    with page.expect_request(lambda request: request.resource_type == "ping") as beacon:
        page.evaluate("penstock.track('left'); dispatchEvent(new Event('pagehide'))")
    assert call.value.url == beacon.value.url == f"{host}/api/track"


def test_sub_domains_share_the_visitor_where_a_site_wants_that(context, account) -> None:
    """Also visitors of before, and after a log-out on one of them."""
    domain = "shop.example"
    script = f'<script src="{account.url}/t.js" data-website="web_unknown"'
    bodies = {
        "alone": f"{script}></script>",
        "": f'{script} data-cookie-domain="{domain}"></script>',
    }
    for name, body in bodies.items():
        serve_html(context, f"https://*/{name}", body)
    page = patient(context).new_page()

    def visitor_id(address: str, first: str = "") -> str:
        page.goto(f"https://{address}")
        return page.evaluate(f"{first}; penstock.visitorId")

    before = visitor_id(f"www.{domain}/alone")
    assert before != visitor_id(f"blog.{domain}/alone")
    shared = visitor_id(f"www.{domain}/")
    assert shared == before
    assert {visitor_id(f"{host}{domain}/") for host in ("blog.", "", "www.")} == {shared}
    assert visitor_id("another.example/") != shared
    page.goto(f"https://blog.{domain}/")
    page.evaluate("penstock.reset()")
    after = visitor_id(f"www.{domain}/")
    assert after != shared
    assert visitor_id(f"blog.{domain}/") == after
    page.evaluate("penstock.consent('denied')")
    assert page.evaluate("document.cookie") == ""


@pytest.mark.parametrize("status", full_except([401], [401, 403, 404], "other answers"))
def test_events_wait_while_the_service_refuses_all_and_the_next_page_sends_them(
    context, account, status
) -> None:
    """The console says it once, also on a host that is not local."""
    site = "https://shop.example"
    website_id = new_website(account.client)
    tag = f'<script src="{account.url}/t.js" data-website="{website_id}"></script>'
    serve_html(context, f"{site}/**", tag)
    cors = {"access-control-allow-origin": "*"}
    context.route("**/api/track", lambda route: route.fulfill(status=status, headers=cors, body=""))
    page, said = patient(context).new_page(), list[str]()
    page.on("console", lambda line: said.append(line.text) if line.type == "warning" else None)
    page.goto(f"{site}/cart")
    page.evaluate("(async () => { penstock.track('kept'); await penstock.flush(); })()")
    page.evaluate("penstock.flush()")
    assert waiting(page) == 2
    [text] = [line for line in said if line.startswith("penstock: ")]
    assert text.split() == f"penstock: answer {status}. {WAITS}".split()
    context.unroute("**/api/track")
    page.goto(f"{site}/again")
    page.evaluate(SET_CLOCK % 60_000)  # What another page has left is sent after half a minute.
    page.evaluate("penstock.flush()")
    page.evaluate("penstock.flush()")
    assert waiting(page) == 0
    eventually(lambda: recent_names(account.client, website_id) >= {"/cart", "kept", "/again"})


@pytest.mark.slow("waits until the events of dead tabs are half a minute old")
def test_every_event_is_stored_once_with_its_time_whatever_happens(service, browser) -> None:
    """Offline spells, killed tabs, two tabs at once, clock changes, 503, 429 and cut answers.

    When the clock is set, nobody knows the times of events whose pages never got an answer.
    """
    _, website_id = service.first_account()
    chance = random.Random(7)
    sent: dict[str, float] = {}
    without_time = set[str]()
    with browser.new_context() as context:
        site = Site(context, service.url, website_id)
        tabs = [site.open("/a"), site.open("/b")]
        for tab in tabs:
            until_sent(tab)  # They know the server's time now.
        site.troubled_share = 0.5
        while len(sent) < EVENTS:
            tab = chance.choice(tabs)
            names = [f"event-{len(sent) + n}" for n in range(chance.randint(1, 10))]
            at = time.time()
            tab.evaluate("(names) => { for (const name of names) penstock.track(name); }", names)
            sent |= dict.fromkeys(names, at)
            if waiting(tab) > 800:  # At 1,000 events would be dropped.
                context.set_offline(False)
                for other in tabs:
                    until_sent(other, at_most=400)
            match chance.randrange(12):
                case 0:
                    context.set_offline(True)
                case 1 | 2 | 3:
                    context.set_offline(False)
                case 4:
                    without_time.update(tab.evaluate(WITHOUT_TIME))
                    site.set_clock(chance.choice((-DAY_MS, DAY_MS)))
                case 5:
                    tabs.remove(tab)
                    tab.close()
                    context.set_offline(False)
                    tabs.append(site.open("/again"))
                case _:
                    tab.wait_for_timeout(chance.randint(0, 100))
        site.troubled_share = 0.0
        context.set_offline(False)
        for tab in tabs:
            tab.close()
        last = site.open("/last")
        until_sent(last)  # Half a minute: tabs leave younger events of others alone.
    service.stop()
    rows = rows_of(service.data, STORED)
    assert Counter(name for name, _ in rows) == Counter(sent.keys())
    wrong = {
        name: int(at_ms) / 1000 - sent[name] for name, at_ms in rows if name not in without_time
    }
    # A page learns the server's time from a call: no better than the call was quick.
    within_s = 1.5 + site.longest_call_s
    latest_s = max(map(abs, wrong.values()))
    print(
        f"{len(sent)} events made and stored once; {len(wrong)} times are right to {latest_s:.2f} s"
    )
    assert latest_s < within_s, sorted(wrong.items(), key=lambda item: abs(item[1]))[-5:]
