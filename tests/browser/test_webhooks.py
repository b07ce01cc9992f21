"""The whole life of a webhook on its pages."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import EMAIL, confirm, create_account, sign_in
from tests.browser.watching import Watch, assert_accessible, assert_fits
from tests.outbound.sinks import LOOPBACK
from tests.records import create, event_steps, new_website, track
from tests.serving import Served
from tests.webhooks.receiver import receiver

FUNNEL = {"name": "Sign-up", "steps": event_steps("begun", "paid")}
ATTEMPTS = {"countingUnit": "attempt", "attemptProperty": "checkoutId"}


@pytest.mark.slow("starts a service that stores outcomes")
def test_a_webhook_is_created_tested_paused_replayed_and_deleted(
    starts_service: None, page: Page, watch: Watch, tmp_path: Path
) -> None:
    limits = {"stored_outcomes_after_ms": 0}
    with (
        receiver() as inbox,
        Served(tmp_path / "data", limits=limits, PENSTOCK_OUTBOUND_NETWORKS=LOOPBACK) as service,
    ):
        account = create_account(service.url, EMAIL)
        client = account.client
        website = new_website(client)
        create(client, "/api/funnels", FUNNEL)
        create(client, "/api/funnels", {**FUNNEL, **ATTEMPTS, "name": "Checkout"})
        sign_in(page.context, service.url, client.cookies["service_session"])

        page.goto(f"{service.url}/settings/webhooks")
        expect(page.get_by_text("Webhooks send nothing.")).to_be_visible()
        page.get_by_role("link", name="Change what may be shared").click()
        sharing = page.locator("#sharing")
        sharing.get_by_label("Also units").check()
        sharing.get_by_role("button", name="Save").click()
        expect(page.locator(".toast")).to_contain_text("Saved.")

        page.get_by_role("link", name="Webhooks").click()
        expect(page.get_by_text("No webhooks yet")).to_be_visible()
        page.get_by_role("link", name="New webhook").first.click()
        page.get_by_label("Name").fill("Reminders")
        page.get_by_label("Funnel").select_option("Sign-up")
        page.get_by_label("URL").fill(inbox.url)
        page.get_by_role("button", name="Create webhook").click()
        expect(page.locator("#events-fault")).to_be_visible()
        page.get_by_label("Entered").check()
        page.get_by_role("button", name="Create webhook").click()
        expect(page.locator("#field-funnelId-fault")).to_contain_text("counts visitors")
        page.get_by_label("Funnel").select_option("Checkout")
        watch.allow("422")
        expect(page.get_by_label("Minutes before the window ends")).to_be_hidden()
        page.get_by_label("Expiring").check()
        page.get_by_label("Minutes before the window ends").fill("30")
        page.get_by_role("button", name="Create webhook").click()
        expect(page.locator("#secret")).to_contain_text("whsec_")
        secret = page.locator("#secret").inner_text()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("dialog").get_by_role("button", name="Copy").click()
        assert page.evaluate("navigator.clipboard.readText()") == secret
        page.get_by_role("button", name="Done").click()
        expect(page).to_have_url(re.compile(r"/settings/webhooks/whk_\w+$"))
        expect(page.locator("#state")).to_contain_text("30m before the window ends")

        inbox.statuses = [500]
        page.get_by_role("button", name="Send test").click()
        log = page.locator("#deliveries tbody tr")
        expect(log).to_contain_text("500")
        assert secret not in page.content()

        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state")).to_contain_text("Paused since")
        track(client, website, name="begun", visitorId="v", properties={"checkoutId": 1})
        page.get_by_role("button", name="Resume").click()
        expect(log).to_have_count(2)
        expect(log.first).to_contain_text("200")
        inbox.verify(secret)

        inbox.statuses = [503]
        page.get_by_role("button", name="Replay").click()
        page.get_by_label("Outcomes of").select_option("The last day")
        confirm(page, "Replay")
        expect(page.locator("#state")).to_contain_text("Failing")
        expect(page.locator("#state")).to_contain_text("1 message")
        page.reload()
        page.get_by_role("button", name="Try again now").click()
        expect(log).to_have_count(4)
        sent = [message["id"] for message in inbox.messages if message["type"] == "entered"]
        assert len(sent) == 2
        assert len(set(sent)) == 1

        page.get_by_role("button", name="New secret").click()
        page.get_by_label("Earlier secrets stay valid").select_option("No longer")
        confirm(page, "Create secret")
        expect(page.locator("#secret")).to_contain_text("whsec_")
        assert page.locator("#secret").inner_text() != secret
        page.get_by_role("button", name="Done").click()

        page.get_by_role("link", name="Edit").click()
        expect(page.get_by_label("Funnel")).to_be_disabled()
        page.get_by_label("Expiring").uncheck()
        page.get_by_label("Completed", exact=False).last.check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#state")).to_contain_text("Entered, Completed")

        page.get_by_role("link", name="Webhooks").first.click()
        for width in (390, 768, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert_fits(page)
        assert_accessible(page)
        page.get_by_label("Delete Reminders").click()
        confirm(page, "Delete")
        expect(page.get_by_text("No webhooks yet")).to_be_visible()
        client.close()
