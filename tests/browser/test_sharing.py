"""From the menu of a report to a link that opens without an account."""

from playwright.sync_api import expect

from tests.browser.conftest import sign_in
from tests.records import create, event_steps


def test_a_link_from_the_menu_of_a_report_opens_without_an_account(signed_in, account):
    page = signed_in
    funnel = create(account.client, "/api/funnels", {"name": "A", "steps": event_steps("a", "b")})
    page.goto(f"/funnels/{funnel['id']}?period=7d&timezone=Europe/Berlin")
    page.get_by_label("More", exact=True).click()
    page.get_by_role("link", name="Share").click()
    page.get_by_label("Name").fill("For the board")
    page.get_by_label("Expires").select_option("Never")
    page.get_by_role("button", name="Create link").click()
    url = page.locator("#url", has_text="/s/").inner_text()
    page.get_by_role("button", name="Done").click()
    row = page.locator("#shares tr", has_text="For the board")
    row.get_by_text("Never").wait_for()
    expect(page.locator("#url")).to_have_text("")

    page.context.clear_cookies()
    page.goto(url)
    page.get_by_role("heading", name="For the board").wait_for()
    assert page.context.cookies() == []
    assert page.locator("a[href^='/']").count() == 0

    sign_in(page.context, account.url, account.client.cookies["service_session"])
    page.goto("/settings/shares")
    page.get_by_label("Revoke For the board").click()
    page.get_by_role("button", name="Revoke", exact=True).click()
    page.get_by_text("Link revoked.").wait_for()
    row.wait_for(state="detached")
    assert page.context.request.get(url).status == 404
