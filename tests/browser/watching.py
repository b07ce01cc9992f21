"""Checks of a page beyond its content: errors, requests, accessibility."""

import re
import time
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import ConsoleMessage, Page, Route

from tests.tiers import TIER, Tier
from tests.waiting import PATIENCE_S

Scheme = Literal["light", "dark"]

_SCHEMES: Sequence[Scheme] = ("light", "dark") if TIER is Tier.FULL else ("light",)
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_REPEATED_RULES = () if TIER is Tier.FULL else ("color-contrast", "target-size")
"""Rules that take half of the time. Each page keeps them in each tier, its dialogs and messages
only in a full run.
"""
_COLOUR_RULES = ["color-contrast", "link-in-text-block"]

_TWO_FRAMES = (
    "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
)
_VIOLATIONS = "async (options) => (await axe.run(options)).violations"
_WIDE = """[...document.querySelectorAll("main *")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth)
    .map((element) => element.outerHTML.slice(0, 120))"""


RECORD_SHIFTS = """
    window.shifts = [];
    new PerformanceObserver((list) => {
      for (const { hadRecentInput, value, sources } of list.getEntries())
        if (!hadRecentInput)
          shifts.push([value, sources.map(({ node }) => node?.parentElement?.outerHTML)]);
    }).observe({ type: "layout-shift", buffered: true });
    const { send } = XMLHttpRequest.prototype;
    XMLHttpRequest.prototype.send = function (...body) {
      setTimeout(() => send.apply(this, body), 100);
    };
"""
"""A script for a page: it records shifts of its layout, and parts that load separately come after
the first paint.
"""

_MAX_SHIFT = 0.1
"""Above this value, browsers call the shift of a layout more than small."""

_OUTLINE = """[...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((heading) => heading.checkVisibility())
    .map((heading) => [Number(heading.tagName[1]), heading.textContent.trim()])"""


class Watch:
    """Records errors and requests to other hosts. Content-Security-Policy violations count as
    errors, because the browser logs them to the console.
    """

    def __init__(self, page: Page) -> None:
        self._page, self._hosts, self.errors = page, set[str](), list[str]()
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", lambda request: self._hosts.add(urlsplit(request.url).netloc))

    def _note_message(self, message: ConsoleMessage) -> None:
        # A job may have finished when a page cancels it.
        is_finished_job = "404" in message.text and "/api/jobs/" in message.location["url"]
        if message.type in ("error", "warning") and not is_finished_job:
            self._note(message.text)

    def _note(self, text: str) -> None:
        self.errors.append(text)

    def allow(self, part: str) -> None:
        """Ignore expected errors, such as a rejected request, whose text contains `part`."""
        self.errors = [error for error in self.errors if part not in error]

    def assert_clean(self) -> None:
        assert not self.errors, "\n".join(self.errors)
        own = urlsplit(self._page.url).netloc
        assert self._hosts - {own, ""} == set()


class HeldRequests:
    """A page's requests, held back until the test releases them."""

    def __init__(self, page: Page, url: str | re.Pattern[str]) -> None:
        self.routes, self._released = list[Route](), False
        page.route(url, self._hold)

    def _hold(self, route: Route) -> None:
        if self._released:
            route.continue_()
        else:
            self.routes.append(route)

    def release(self) -> None:
        self._released = True
        for route in self.routes:
            route.continue_()


def assert_accessible(
    page: Page,
    schemes: Sequence[Scheme] = _SCHEMES,
    without: Sequence[str] = _REPEATED_RULES,
) -> None:
    """Assert that axe finds no violations in light or dark mode, in `make test` in light mode only.

    schemes: all rules apply to the first. Another one is checked for its colours, because nothing
    else differs. without: rules that are left out.
    """
    for scheme in schemes:
        rules = _RULES if scheme == schemes[0] else _COLOUR_RULES
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_TWO_FRAMES)
        if not page.evaluate("() => Boolean(window.axe)"):
            page.evaluate(AXE_SCRIPT)
        options: dict[str, Any] = {
            "runOnly": rules,
            "resultTypes": ["violations"],
            "preload": False,
        }
        options["rules"] = {rule: {"enabled": False} for rule in without}
        violations = page.evaluate(_VIOLATIONS, options)
        descriptions = [
            f"{scheme} {violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for violation in violations
            for node in violation["nodes"]
        ]
        assert not descriptions, "\n".join(descriptions)
    page.emulate_media(color_scheme="light")


def assert_fits_at(page: Page, *widths: int) -> None:
    """Assert that the page fits windows of these widths. The last one remains."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        assert_fits(page)


def assert_fits(page: Page) -> None:
    """Assert that the page fits its window, after charts have adapted to its size."""
    until_s = time.monotonic() + PATIENCE_S
    while not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        assert time.monotonic() < until_s, page.evaluate(_WIDE)
        page.wait_for_timeout(50)


def assert_still(page: Page) -> None:
    """Assert that the layout of a page, which has `RECORD_SHIFTS`, hardly shifts as it loads."""
    page.evaluate(_TWO_FRAMES)
    shifts = page.evaluate("shifts")
    largest = sorted(shifts, key=lambda shift: -shift[0])[:1]
    assert sum(value for value, _ in shifts) < _MAX_SHIFT, largest


def assert_outlined(page: Page) -> None:
    """Assert that all headings of a page have text, and that none skips a level."""
    level = 0
    for next_level, text in page.evaluate(_OUTLINE):
        assert text, f"an empty heading of level {next_level}"
        assert next_level <= level + 1, f"{text} has level {next_level} after {level}"
        level = next_level
