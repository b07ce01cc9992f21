"""The build of a funnel's stored outcomes on its page: progress, and a button that cancels it."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import EMAIL, create_account, sign_in
from tests.browser.watching import assert_accessible
from tests.records import create, event_steps, track
from tests.serving import Served
from tests.waiting import eventually


@pytest.fixture
def service(starts_service, tmp_path):
    program = ("tests.browser.endless_builds",)
    limits = {"stored_outcomes_after_ms": 0}
    with Served(tmp_path / "data", program=program, limits=limits) as running:
        yield running


@pytest.fixture
def account(service):
    return create_account(service.url, EMAIL)


@pytest.fixture
def funnel(account, website):
    """The ID of a funnel that counts attempts, of which there is one."""
    client = account.client
    track(client, website, name="started", visitorId="v", properties={"checkoutId": 1})
    unit = {"countingUnit": "attempt", "attemptProperty": "checkoutId"}
    form = {"name": "Checkout", "steps": event_steps("started", "paid"), **unit}
    return create(client, "/api/funnels", form)["id"]


@pytest.mark.slow("starts a service")
def test_a_build_shows_its_progress_and_can_be_cancelled(page, watch, account, funnel):
    def state():
        return account.client.get(f"/api/funnels/{funnel}/outcomes").json()["state"]

    sign_in(page.context, account.url, account.client.cookies["service_session"])
    page.goto(f"/funnels/{funnel}")
    build = page.get_by_role("group", name="Storing outcomes")
    expect(build).to_contain_text("of this step")
    eventually(lambda: state() == "building")
    for width in (390, 768, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_accessible(page)
    build.get_by_role("button", name="Cancel").click()
    expect(page.locator(".toast")).to_contain_text("Outcomes are not stored for a day.")
    expect(build).to_have_count(0)
    assert state() == "none"
    page.reload()
    expect(page.locator("#step-2")).to_be_visible()
    expect(build).to_have_count(0)
