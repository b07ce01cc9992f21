"""The search of the documentation site finds the page that answers a question."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler

import pytest
from playwright.sync_api import Page, expect

from tests.docsite.built import built_site
from tests.http_server import Answering, http_server

pytestmark = [
    pytest.mark.full("builds the documentation site"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),  # by MyST
]

ANSWERS = {
    "conversion window": "funnels",
    "webhook secret": "providers",
    "GDPR": "privacy",
    "restore backup": "operating",
    "PENSTOCK_PUBLIC_URL": "operating",
    "Next.js": "recipes/nextjs",
    "clock": "time",
    "PostHog": "comparison",
}
"""What somebody types, and a page that must be among the first five results."""


class _Files(Answering, SimpleHTTPRequestHandler):
    """Serves the files of a folder."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site."""
    folder = built_site(tmp_path_factory)
    with http_server(partial(_Files, directory=str(folder))) as url:
        yield url


def search(page: Page, site: str, words: str) -> None:
    page.goto(f"{site}/index.html")
    page.get_by_placeholder("Search").fill(words)
    page.keyboard.press("Enter")


@pytest.mark.parametrize(("words", "answer"), ANSWERS.items())
def test_the_search_finds_the_page_that_answers(
    page: Page, site: str, words: str, answer: str
) -> None:
    search(page, site, words)
    expect(page.locator(".search-summary")).to_contain_text("found")
    links = page.locator("#search-results li > a")
    paths = links.evaluate_all("links => links.map(link => link.pathname)")
    assert f"/{answer}.html" in paths[:5]


def test_the_search_says_that_it_found_nothing(page: Page, site: str) -> None:
    search(page, site, "zzqqxx")
    expect(page.locator("#search-results")).to_contain_text("did not match any documents")
