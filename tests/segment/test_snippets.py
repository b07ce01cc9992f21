"""Every snippet of docs/segment.md and the dashboard runs, and its events are stored.

Those of the page have sequence numbers.
"""

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser.conftest import browser_type_launch_args
from tests.identity.test_signed_identities import signature
from tests.segment.service import CLIENTS, PYTHON_PATH, ROOT, Json, Service, Site, new_site, node
from tests.waiting import PATIENCE_S, eventually

__all__ = ["browser_type_launch_args"]

PAGE = (ROOT / "docs/segment.md").read_text("utf-8")
PYTHON, JAVASCRIPT = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("python", "js")
)
SEGMENT_PY, RUDDERSTACK_PY, SEQUENCE_PY = PYTHON
SEGMENT_NODE, RUDDERSTACK_NODE, SEGMENT_WEB, RUDDERSTACK_WEB, SIGNED, *SEQUENCES = JAVASCRIPT
SEQUENCE, RUDDERSTACK_NODE_SEQUENCE, RUDDERSTACK_WEB_SEQUENCE = SEQUENCES
IMPORTS = """<script src="/node_modules/@segment/analytics-next/dist/umd/index.js"></script>
<script type="importmap">{"imports": {
  "@segment/analytics-next": "/umd.js",
  "@rudderstack/analytics-js/bundled":
    "/node_modules/@rudderstack/analytics-js/dist/npm/modern/bundled/esm/index.mjs"
}}</script>"""
UMD = "export const { AnalyticsBrowser } = AnalyticsNext;"

pytestmark = pytest.mark.skipif(
    not (CLIENTS / "node_modules").exists(), reason="scripts/setup segment installs the clients"
)


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("snippets") / "data")
    yield running
    running.close()


def filled_in(snippet: str, site: Site) -> str:
    for placeholder, value in {
        "https://penstock.example": site.service.url,
        "psk_...": site.write_key,
        "web_...": site.website_id,
    }.items():
        snippet = snippet.replace(placeholder, value)
    return snippet


def with_sequence(snippet: str, sequence: str) -> str:
    """The snippet with the plug-in before its first event."""
    before, call, after = snippet.partition("analytics.track")
    return f"{before}\n{sequence}\n{call}{after}"


def events(site: Site) -> list[Json]:
    recent = site.service.client.get("/api/events/recent", params={"limit": 100}).json()["data"]
    return [event for event in recent if event["websiteId"] == site.website_id]


def expect_numbered(site: Site) -> None:
    def is_stored() -> bool:
        return "Checkout Started" in {event["name"] for event in events(site)}

    eventually(is_stored)
    [started] = [event for event in events(site) if event["name"] == "Checkout Started"]
    assert started["properties"]["checkout_id"] == "c-1"
    assert started["properties"]["sequence"] > 10**15


def run(*command: str, **environment: str) -> None:
    ran = subprocess.run(
        command, cwd=CLIENTS, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow("starts a program for each snippet")
def test_snippets_for_backends(service: Service) -> None:
    for snippet in (SEGMENT_PY, RUDDERSTACK_PY):
        site = new_site(service)
        imports, _, code = snippet.partition("\n\n")
        plug_in = SEQUENCE_PY.replace("from segment.analytics import Client", imports)
        code = f"{plug_in}\n{code}".replace("= Client(", "= Sequenced(")
        run(sys.executable, "-c", filled_in(code, site), **PYTHON_PATH)
        expect_numbered(site)
    for snippet, sequence in (
        (SEGMENT_NODE, SEQUENCE),
        (RUDDERSTACK_NODE, RUDDERSTACK_NODE_SEQUENCE),
    ):
        site = new_site(service)
        code = filled_in(with_sequence(snippet, sequence), site)
        run(node(), "--input-type=module", "-e", code)
        expect_numbered(site)


def open_page(browser: Browser, code: str) -> Page:
    """A page of a shop with this module."""
    body = f"<html><head>{IMPORTS}<script type=module>{code}</script></head></html>"

    def serve(route: Route) -> None:
        path = route.request.url.partition("http://shop.localhost/")[2]
        if path.startswith("node_modules/"):
            route.fulfill(path=CLIENTS / path, content_type="text/javascript")
        elif path == "umd.js":
            route.fulfill(body=UMD, content_type="text/javascript")
        else:
            route.fulfill(body=body, content_type="text/html")

    page = browser.new_page()
    page.route("http://shop.localhost/**", serve)
    page.goto("http://shop.localhost/cart")
    return page


@pytest.mark.slow("opens a page for each snippet")
def test_snippets_for_pages(service: Service, browser: Browser) -> None:
    for snippet, sequence in ((SEGMENT_WEB, SEQUENCE), (RUDDERSTACK_WEB, RUDDERSTACK_WEB_SEQUENCE)):
        site = new_site(service)
        address = f"/api/settings/websites/{site.website_id}"
        secret = service.client.post(f"{address}/identity-secrets").json()["secret"]
        changed = service.client.patch(address, json={"requiresSignedIdentities": True})
        assert changed.status_code == 200, changed.text
        signed = SIGNED.replace("5f2c...", signature(secret, "u-1"))
        page = open_page(browser, filled_in(with_sequence(snippet, sequence), site) + signed)
        expect_numbered(site)
        eventually(lambda site=site: is_linked(site))
        assert "/cart" in {event["name"] for event in events(site)}
        page.close()


def test_the_snippet_of_the_dashboard(service: Service, browser: Browser) -> None:
    site = new_site(service)
    welcome = service.client.get(f"/welcome/{site.website_id}").text
    [snippet] = re.findall(r'<code id="snippet-segment">(.*?)</code>', welcome, re.DOTALL)
    page = open_page(browser, html.unescape(snippet))
    eventually(lambda: {event["name"] for event in events(site)} == {"/cart"})
    page.close()


def is_linked(site: Site) -> bool:
    """Whether the visitor of the page is the signed user."""
    answer = site.service.client.get(
        "/api/personal-data", params={"websiteId": site.website_id, "userId": "u-1"}
    )
    return answer.status_code == 200
