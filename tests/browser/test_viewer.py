"""The dashboard of a viewer: every page opens, and none offers what the API would refuse."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import sign_in
from tests.browser.pages import PAGES
from tests.serving import http_client
from tests.tenant import PASSWORD

OFFERS = """() => [...document.querySelectorAll(
  'main a[href], main [data-opens], main [type=submit], main form[data-api]')]
  .filter((each) => each.checkVisibility() || each.matches('form'))
  .filter((each) => !each.closest('form[method=get], form[action^="/api/auth/"], dialog'))
  .map((each) => each.dataset.opens ?? each.dataset.api ?? each.getAttribute('href') ?? 'submit')"""
"""What a page offers: links, and buttons and forms that send something."""
REFUSED = ("/api/personal-data", "/api/exports", "/api/events/refused/export")
LEAVES_THE_WORKSPACE = "#remove-"
OTHERS = ("confirm-email", "settings-account", "system")
"""Pages of the reader's own account, and those for owners only."""


@pytest.fixture(scope="module")
def viewer(demo):
    """The session of a viewer of the demo's workspace."""
    form = {"email": "vera@example.com", "role": "viewer"}
    url = demo.service.client.post("/api/settings/invitations", json=form).json()["url"]
    browser = http_client(demo.url)
    invited = {"email": form["email"], "password": PASSWORD, "invitation": url.partition("=")[2]}
    browser.post("/api/auth/signup", json=invited).raise_for_status()
    return browser.cookies["service_session"]


@pytest.mark.slow("opens every page")
def test_every_page_opens_for_a_viewer_and_offers_no_change(page, demo, viewer, watch):
    sign_in(page.context, demo.url, viewer)
    for shown in PAGES:
        if not shown.signed_in or shown.name in OTHERS:
            continue
        page.goto(shown.path(demo.ids), wait_until="load")
        page.wait_for_selector("[aria-busy=true]", state="detached")
        offers = page.evaluate(OFFERS)
        changes = [
            offer
            for offer in offers
            if offer in ("submit", "POST", "PUT", "PATCH", "DELETE")
            or offer.startswith(REFUSED)
            or (offer.startswith("#") and page.locator(f"dialog{offer}").count())
        ]
        assert [each for each in changes if LEAVES_THE_WORKSPACE not in each] == [], shown.name


def test_a_viewer_sees_the_role_and_changes_only_their_account(page, demo, viewer):
    sign_in(page.context, demo.url, viewer)
    page.goto("/settings/workspace")
    expect(page.locator(".workspace")).to_contain_text("Viewer")
    expect(page.get_by_label("Name", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.goto("/settings/account")
    expect(page.get_by_role("button", name="Change password")).to_be_visible()
    expect(page.get_by_role("button", name="Set up")).to_be_visible()
    page.goto("/settings/shares")
    expect(page.get_by_text("or is revoked")).to_be_visible()
    expect(page.get_by_role("link", name="Change what may be shared")).to_have_count(0)
