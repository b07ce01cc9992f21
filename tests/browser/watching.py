"""What a test sees of a page beside its content: errors, requests to elsewhere, accessibility."""

import time
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], "resultTypes": ["violations"]}
_TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_WIDE = """[...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.outerHTML.slice(0, 120))"""


class Watch:
    """Everything that a page does which it should not. A policy that is broken is an error in the console, too."""

    def __init__(self, page: Page) -> None:
        self._page, self._hosts, self.errors = page, set[str](), list[str]()
        page.on("console", lambda message: self._note(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", lambda request: self._hosts.add(urlsplit(request.url).netloc))

    def _note(self, text: str) -> None:
        self.errors.append(text)

    def allow(self, part: str) -> None:
        """Forget errors that a test brings about, as a refused request, by a part of their text."""
        self.errors = [error for error in self.errors if part not in error]

    def assert_clean(self) -> None:
        assert not self.errors, "\n".join(self.errors)
        own = urlsplit(self._page.url).netloc
        assert self._hosts - {own, ""} == set()


def assert_accessible(page: Page) -> None:
    """No violation that axe finds, in the light and in the dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_TWO_FRAMES)
        found = Axe().run(page, options=_RULES)
        told = [
            f"{scheme} {one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for one in found.response["violations"]
            for node in one["nodes"]
        ]
        assert not told, "\n".join(told)
    page.emulate_media(color_scheme="light")


def assert_fits(page: Page) -> None:
    """Nothing makes the page wider than its window, once charts have followed its size."""
    until_s = time.monotonic() + 20
    while not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        assert time.monotonic() < until_s, page.evaluate(_WIDE)
        page.wait_for_timeout(50)
