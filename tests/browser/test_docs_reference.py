"""The API reference of the service, in a browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.watching import assert_accessible, assert_fits


@pytest.mark.full("axe takes three CPU seconds for this page")
def test_the_reference_is_accessible(demo, page, watch):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/api/docs")
    page.get_by_label("Search").fill("deferred-links csv")
    expect(page.get_by_role("status")).to_have_text("2 found")
    assert_accessible(page)


def test_the_reference_is_searched_by_words_and_leads_back(demo, page, watch):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/api/docs")
    assert_fits(page)
    expect(page.get_by_role("link", name="Dashboard")).to_have_attribute("href", "/")
    page.get_by_label("Search").fill("deferred-links csv")
    expect(page.get_by_role("status")).to_have_text("2 found")
    shown = page.locator("main article h3").filter(visible=True)
    expect(shown).to_have_text(
        ["POST /api/mobile/deferred-links/csv", "GET /api/mobile/deferred-links/csv"]
    )
    areas = page.locator("nav [data-area]").filter(visible=True)
    expect(areas).to_have_count(1)
    areas.get_by_role("link", name="POST").click()
    assert page.url.endswith("#post-api-mobile-deferred-links-csv")
    page.get_by_label("Search").fill("")
    expect(areas).to_have_count(page.locator("nav [data-area]").count())
