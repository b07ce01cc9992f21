"""Log-in, log-out, and what becomes of a page whose session has ended."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import log_in
from tests.browser.watching import HeldRequests
from tests.tenant import PASSWORD


def log_in_again(page, password=PASSWORD):
    """Log in within the page, whose session has ended. Returns the dialog."""
    dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Log in").click()
    return dialog


def test_the_log_in_leads_back_to_the_requested_page(account, page, watch):
    page.goto("/settings/api-keys?page=1")
    expect(page).to_have_url(f"{account.url}/login?next=/settings/api-keys%3Fpage%3D1")
    log_in(page, account.email, "wrong horse battery")
    expect(page.get_by_role("alert")).to_have_text("The email address or the password is wrong.")
    expect(page.get_by_label("Email address")).to_have_value(account.email)
    watch.allow("401")
    log_in(page, account.email)
    expect(page).to_have_url(f"{account.url}/settings/api-keys?page=1")


def test_the_log_in_leads_to_no_other_host(account, page, watch):
    page.goto("/login?next=//evil.example/")
    log_in(page, account.email)
    expect(page).to_have_url(f"{account.url}/welcome")


def test_after_the_log_out_pages_lead_to_the_log_in(signed_in, account):
    signed_in.goto("/settings/account")
    signed_in.get_by_role("button", name="Log out").click()
    expect(signed_in).to_have_url(f"{account.url}/login")
    signed_in.goto("/settings/account")
    expect(signed_in).to_have_url(re.compile("/login"))


def test_a_session_that_ends_loses_nothing_that_was_typed(signed_in, account, watch):
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_label("Name").fill("Shop")
    account.client.post("/api/auth/logout").raise_for_status()
    signed_in.get_by_role("button", name="Add website").click()
    dialog = log_in_again(signed_in, "wrong horse battery")
    expect(dialog.get_by_role("alert")).to_be_visible()
    log_in_again(signed_in)
    expect(signed_in.get_by_role("heading", name="Shop")).to_be_visible()
    watch.allow("401")


def test_a_website_that_is_gone_is_a_fault_of_its_field_and_ends_no_session(
    signed_in, account, website, watch
):
    signed_in.goto("/settings/api-keys")
    signed_in.get_by_role("button", name="Create a key").first.click()
    dialog = signed_in.get_by_role("dialog", name="Create an API key")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("Backend")
    dialog.get_by_label("For").select_option("Shop")
    account.client.delete(f"/api/settings/websites/{website}").raise_for_status()
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_text("This workspace has no website with this ID.")).to_be_visible()
    expect(dialog.get_by_label("For")).to_have_attribute("aria-invalid", "true")
    expect(signed_in.get_by_role("dialog", name="Your session has ended")).to_be_hidden()
    watch.allow("401")


def test_a_server_that_cannot_be_reached_loses_nothing_that_was_typed(signed_in, watch):
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_label("Name").fill("Shop")
    signed_in.context.set_offline(True)
    signed_in.get_by_role("button", name="Add website").click()
    expect(signed_in.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(signed_in.get_by_label("Name")).to_have_value("Shop")
    signed_in.context.set_offline(False)
    signed_in.get_by_role("button", name="Add website").click()
    expect(signed_in.get_by_role("heading", name="Shop")).to_be_visible()
    watch.allow("ERR_INTERNET_DISCONNECTED")


@pytest.mark.usefixtures("context")  # for its clock
def test_a_slow_request_says_so_and_a_second_click_sends_nothing(signed_in):
    signed_in.clock.install()
    signed_in.goto("/settings/websites/new")
    held = HeldRequests(signed_in, "**/api/settings/websites")
    signed_in.get_by_label("Name").fill("Shop")
    button = signed_in.get_by_role("button", name="Add website")
    button.click()
    expect(button).to_have_attribute("aria-disabled", "true")
    button.click(force=True)
    signed_in.clock.fast_forward(5000)
    expect(signed_in.get_by_text("Still sending…")).to_be_visible()
    assert len(held.routes) == 1
    held.release()
    expect(signed_in.get_by_role("heading", name="Shop")).to_be_visible()


def test_the_choice_of_colours_stays(signed_in):
    signed_in.goto("/settings/account")
    signed_in.get_by_role("button", name="Dark").click()
    signed_in.goto("/settings/websites")
    expect(signed_in.locator("html")).to_have_attribute("data-theme", "dark")
    expect(signed_in.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    assert (
        signed_in.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 21, 27)"
    )
