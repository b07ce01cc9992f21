"""What holds for every page of the dashboard.

`make test` opens each page in one look, a width and a theme that change from page to page, so that
all looks are seen over the pages. A full run checks each page at all widths and in both themes.
"""

from itertools import product

import pytest

from penstock.app import build_routes
from tests.browser.conftest import CONTEXT, patient, sign_in
from tests.browser.pages import ONLY_LEAD_ON, PAGES, PARTS
from tests.browser.watching import (
    RECORD_SHIFTS,
    assert_accessible,
    assert_fits,
    assert_outlined,
    assert_still,
)
from tests.tiers import TIER, Tier

MAX_BYTES = 100_000
WIDTHS = (1440, 768, 390)
LOOKS = tuple(product((1440, 768, 360), ("light", "dark")))
"""Widths in pixels and themes."""


@pytest.fixture(scope="module")
def page(browser, demo):
    """One for all: to start a process of the browser costs as much as to load a page."""
    with browser.new_context(base_url=demo.url, **CONTEXT) as context:
        yield patient(context).new_page()


@pytest.fixture(scope="module")
def still_page(browser, demo):
    """A page that records shifts of its layout."""
    with browser.new_context(base_url=demo.url, **CONTEXT) as context:
        context.add_init_script(RECORD_SHIFTS)
        yield patient(context).new_page()


@pytest.fixture(scope="module")
def loaded_bytes():
    """The bytes of each file that was loaded, by URL: later pages have it from the cache."""
    return {}


def weight_of(requests, loaded_bytes):
    """Return the bytes that a page takes at a first visit."""
    total = 0
    for url, size in {each.url: each.sizes()["responseBodySize"] for each in requests}.items():
        total += loaded_bytes.setdefault(url, size) if "/static/" in url else size
    return total


def opened(page, demo, shown):
    page.goto("about:blank")  # the page before may ask for news, and has no session from here on
    page.context.clear_cookies()
    if shown.signed_in:
        sign_in(page.context, demo.url, demo.session)
    page.goto(shown.path(demo.ids), wait_until="load")
    page.wait_for_selector("[aria-busy=true]", state="detached")
    return page


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.name)
def test_weighs_less_than_100_kb_fits_from_360_px_and_is_accessible_light_and_dark(
    page, demo, watch, loaded_bytes, shown
):
    requests = []
    page.on("requestfinished", lambda request: requests.append(request))
    opened(page, demo, shown)
    assert weight_of(requests, loaded_bytes) < MAX_BYTES
    assert len({request.url for request in requests}) > 5

    assert page.locator("h1").count() == 1
    if TIER is Tier.TEST:
        width, theme = LOOKS[PAGES.index(shown) % len(LOOKS)]
        page.set_viewport_size({"width": width, "height": 800})
        assert_fits(page)
        assert_accessible(page, [theme], without=())
        return
    for width in (1440, 768, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert_fits(page)
    assert_accessible(page, ["light"])  # a narrow page has the colours of a wide one
    page.set_viewport_size({"width": 1440, "height": 800})
    assert_accessible(page)


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.name)
def test_hardly_shifts_as_it_loads_and_has_an_outline(still_page, demo, shown):
    at = PAGES.index(shown)
    for width in WIDTHS if TIER is Tier.FULL else (WIDTHS[at % len(WIDTHS)],):
        still_page.set_viewport_size({"width": width, "height": 800})
        opened(still_page, demo, shown)
        assert_still(still_page)
        assert_outlined(still_page)


def test_no_page_is_missing_here(services):
    pages = {
        route.path_format
        for route in build_routes(services).routes
        for handler in getattr(route, "route_handlers", ())
        if handler.opt.get("page")
    }
    assert pages == {shown.route for shown in PAGES} | ONLY_LEAD_ON | PARTS
