"""From the menu of a report to its number, kept, opened and revoked."""

from tests.records import create, event_steps


def test_a_number_is_kept_from_the_menu_of_a_report_and_opened(signed_in, account):
    page = signed_in
    funnel = create(account.client, "/api/funnels", {"name": "A", "steps": event_steps("a", "b")})
    page.goto(f"/funnels/{funnel['id']}?period=7d&timezone=Europe/Berlin")
    page.get_by_label("More", exact=True).click()
    page.get_by_role("link", name="Keep this number").click()
    page.get_by_label("Name").fill("Board, December")
    page.get_by_role("button", name="Keep this number").click()
    page.get_by_role("heading", name="Board, December").wait_for()
    page.get_by_role("heading", name="Unchanged").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{page.url.rpartition('/')[2]}.json"
    page.get_by_label("Revoke", exact=True).click()
    page.locator("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("No receipts").wait_for()
