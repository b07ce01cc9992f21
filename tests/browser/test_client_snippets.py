"""Every JavaScript snippet of these pages, the README of the package and the dashboard runs."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser.conftest import Account, patient, serve_html
from tests.cases import full_except
from tests.other_programs import run_program
from tests.records import new_key, new_website, recent_names
from tests.segment.service import node
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "sdk/js/dist"
PAGES = (
    *(ROOT / f"docs/{name}.md" for name in ("clients", "identity", "planning-events")),
    ROOT / "sdk/js/README.md",
)
SNIPPETS, TAGS = (
    [
        snippet
        for page in PAGES
        for snippet in re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]
    for language in ("js", "html")
)
SITE = "http://shop.localhost"
IMPORTS = '<script type="importmap">{"imports": {"@penstock/sdk": "/sdk/index.js"}}</script>'

built = pytest.mark.skipif(not BUILT.exists(), reason="make sdk builds the client")

_APP = """
const stored = new Map();
const AsyncStorage = {
  getAllKeys: async () => [...stored.keys()],
  getItem: async (key) => stored.get(key) ?? null,
  setItem: async (key, value) => void stored.set(key, value),
  removeItem: async (key) => void stored.delete(key),
};
const AppState = { addEventListener: () => {} };
const Platform = { OS: "android", Version: 34 };
const Clipboard = { getStringAsync: async () => "" };
const Linking = { getInitialURL: async () => null };
const readInstallReferrer = async () => "utm_source=google-play&utm_medium=organic";
const navigate = () => {};
"""
"""What React Native would bring."""


def snippets(importing: str) -> list[str]:
    matching = [text for text in SNIPPETS if f'from "{importing}"' in text]
    assert matching, importing
    return matching


def first_and_others(texts: list[str]) -> list[Any]:
    """The texts, of which `make test` runs the first."""
    return full_except(texts[:1], texts, "other snippets")


def filled_in(snippet: str, account: Account, website: str, folder: Path) -> str:
    """The snippet with a real service, website and folder."""
    return (
        snippet.replace("https://penstock.example", account.url)
        .replace("web_...", website)
        .replace("/var/lib/shop/penstock", str(folder))
    )


def expect_stored(account: Account, *names: str) -> None:
    eventually(lambda: recent_names(account.client) >= set(names))


def open_bundled(page: Page, code: str) -> None:
    """A page with this module, as a bundler makes it."""

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/sdk/")[2]
        if name != route.request.url:
            route.fulfill(path=BUILT / name, content_type="text/javascript")
        else:
            body = f"<html><head>{IMPORTS}<script type=module>{code}</script></head></html>"
            route.fulfill(body=body, content_type="text/html")

    page.route(f"{SITE}/**", serve)
    page.goto(f"{SITE}/cart")


def open_html(page: Page, body: str) -> None:
    """Open the shop's page, which has this HTML."""
    serve_html(page, f"{SITE}/**", body)
    page.goto(f"{SITE}/cart")


@built
@pytest.mark.parametrize("snippet", first_and_others(snippets("@penstock/sdk")))
def test_snippets_for_pages_with_a_bundler(
    account: Account, website: str, page: Page, tmp_path: Path, snippet: str
) -> None:
    open_bundled(page, filled_in(snippet, account, website, tmp_path))
    expect_stored(account, "/cart", *re.findall(r'track\("(\w+)"', snippet))


@built
def test_the_snippet_of_the_dashboard_for_pages_with_a_bundler(
    account: Account, website: str, signed_in: Page, browser: Browser
) -> None:
    signed_in.goto(f"/welcome/{website}")
    code = signed_in.locator("#snippet-npm").text_content()
    assert code is not None
    with patient(browser.new_context()) as visited:
        open_bundled(visited.new_page(), code)
        expect_stored(account, "/cart", "signed_up")


@pytest.mark.parametrize("tag", first_and_others(TAGS))
def test_the_script_and_calls_before_it_has_loaded(
    account: Account, website: str, page: Page, tmp_path: Path, tag: str
) -> None:
    (early,) = [text for text in SNIPPETS if "import " not in text]
    script = filled_in(tag, account, website, tmp_path)
    body = f"<html><head><script>{early}</script>{script}</head></html>"
    open_html(page, body)
    expect_stored(account, "/cart", "signed_up")


def test_the_snippets_about_consent_send_nothing_before_it(
    account: Account, website: str, page: Page, tmp_path: Path
) -> None:
    text = (ROOT / "docs/privacy.md").read_text("utf-8")
    [tag] = re.findall(r"```html\n(.*?)```", text, re.DOTALL)
    [consent] = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    body = f"<html><head>{filled_in(tag, account, website, tmp_path)}</head></html>"
    open_html(page, body)
    assert recent_names(account.client) == set()
    page.evaluate(consent)
    expect_stored(account, "/cart")


def run_in_node(code: str, **environment: str) -> None:
    """Run a module, with made-up modules of React Native."""
    without_app = re.sub(r'import .* from "(?!@penstock|node:).*\n', "", code)
    command = [node(), "--input-type=module", "-e", _APP + without_app]
    folder = ROOT / "sdk/js"  # the package imports itself by its own name
    run_program(command, folder=folder, environment={**os.environ, **environment})


@built
@pytest.mark.parametrize(
    ("entry", "kind", "own_names"), [("react-native", "mobile", ["install"]), ("node", "web", [])]
)
def test_snippets_for_apps_and_backends(
    account: Account, tmp_path: Path, entry: str, kind: str, own_names: list[str]
) -> None:
    """The snippets of an entry are one program; the first one imports what the others share."""
    first, *more = snippets(f"@penstock/sdk/{entry}")
    snippet = first + "".join(text.replace("import { init, ", "import { ") for text in more)
    website = new_website(account.client, kind=kind)
    key = new_key(account.client)
    run_in_node(filled_in(snippet, account, website, tmp_path / "spill"), PENSTOCK_API_KEY=key)
    names = re.findall(r'(?:event: |screen\(|track\()"(\w+)"', snippet)
    expect_stored(account, *names, *own_names)


@built
def test_the_snippets_of_the_dashboard_for_apps(account: Account, signed_in: Page) -> None:
    website_id = new_website(account.client, kind="mobile")
    signed_in.goto(f"/welcome/{website_id}")
    app, curl = (signed_in.locator(name).text_content() for name in ("#snippet", "#snippet-http"))
    assert app is not None
    assert curl is not None
    run_in_node(app)
    expect_stored(account, "Home")
    run_program(["bash", "-c", curl.replace("Home", "From curl")], may_warn=True)
    expect_stored(account, "From curl")
