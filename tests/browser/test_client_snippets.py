"""Every JavaScript snippet of docs/clients.md runs and its events are stored."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route

from tests.browser.conftest import Account
from tests.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "sdk/js/dist"
SNIPPETS = re.findall(r"```js\n(.*?)```", (ROOT / "docs/clients.md").read_text("utf-8"), re.DOTALL)
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


def filled_in(snippet: str, account: Account, website_id: str, folder: Path) -> str:
    """The snippet with a real service, website and folder."""
    return (
        snippet.replace("https://penstock.example", account.url)
        .replace("web_...", website_id)
        .replace("/var/lib/shop/penstock", str(folder))
    )


def new_website(account: Account, kind: str) -> str:
    body = {"name": "Shop", "kind": kind}
    return account.client.post("/api/settings/websites", json=body).json()["id"]


@pytest.fixture
def website_id(account: Account) -> str:
    return new_website(account, "web")


def stored_names(account: Account) -> set[str]:
    recent = account.client.get("/api/events/recent").json()["data"]
    return {event["name"] for event in recent}


def expect_stored(account: Account, *names: str) -> None:
    eventually(lambda: stored_names(account) >= set(names))


@built
@pytest.mark.parametrize("snippet", snippets("@penstock/sdk"))
def test_snippets_for_pages_with_a_bundler(
    account: Account, website_id: str, page: Page, tmp_path: Path, snippet: str
) -> None:
    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/sdk/")[2]
        if name != route.request.url:
            route.fulfill(path=BUILT / name, content_type="text/javascript")
        else:
            code = filled_in(snippet, account, website_id, tmp_path)
            body = f"<html><head>{IMPORTS}<script type=module>{code}</script></head></html>"
            route.fulfill(body=body, content_type="text/html")

    page.route(f"{SITE}/**", serve)
    page.goto(f"{SITE}/cart")
    expect_stored(account, "/cart", *re.findall(r'track\("(\w+)"', snippet))


def test_the_snippet_for_calls_before_the_script_has_loaded(
    account: Account, website_id: str, page: Page
) -> None:
    (early,) = [text for text in SNIPPETS if "import " not in text]
    script = f'<script async src="{account.url}/t.js" data-website="{website_id}"></script>'
    body = f"<html><head><script>{early}</script>{script}</head></html>"
    page.route(f"{SITE}/**", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"{SITE}/cart")
    expect_stored(account, "/cart", "signed_up")


@built
@pytest.mark.parametrize(
    ("entry", "kind", "own_names"), [("react-native", "mobile", ["install"]), ("node", "web", [])]
)
def test_snippets_for_apps_and_backends(
    account: Account, tmp_path: Path, entry: str, kind: str, own_names: list[str]
) -> None:
    """The snippets of an entry are one program; the first one imports what the others share."""
    node = shutil.which("node", path=f"{os.environ['PATH']}:{ROOT / '.venv/bin'}")
    assert node is not None
    first, *more = snippets(f"@penstock/sdk/{entry}")
    snippet = first + "".join(text.replace("import { init, ", "import { ") for text in more)
    website_id = new_website(account, kind)
    key = account.client.post("/api/settings/api-keys", json={"name": "shop"}).json()["key"]
    without_app = re.sub(r'import .* from "(?!@penstock).*\n', "", snippet)
    code = _APP + filled_in(without_app, account, website_id, tmp_path / "spill")
    ran = subprocess.run(
        [node, "--input-type=module", "-e", code],
        cwd=ROOT / "sdk/js",  # the package imports itself by its own name
        env={**os.environ, "PENSTOCK_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    names = re.findall(r'(?:event: |screen\(|track\()"(\w+)"', snippet)
    expect_stored(account, *names, *own_names)
