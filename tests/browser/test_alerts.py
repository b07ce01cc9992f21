"""An alert from a report in two clicks, its form, and the subscription to the weekly digest."""

import re
import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.metadb.snapshot import SQLITE_FILE
from tests.browser.conftest import sign_in
from tests.mail_server import mail_server
from tests.records import create, event_steps
from tests.serving import Served

FUNNEL = {
    "name": "Checkout",
    "steps": event_steps("begun", "paid"),
    "conversionWindowSeconds": 86_400,
}


@pytest.mark.slow("starts a service that sends mails")
def test_alerts_and_digests_are_made_with_few_clicks(
    starts_service: None, page: Page, tmp_path: Path
) -> None:
    with (
        mail_server() as mails,
        Served(
            tmp_path / "data", PENSTOCK_SMTP_URL=mails.url, PENSTOCK_MAIL_FROM="p@example.com"
        ) as service,
    ):
        service.first_account()
        with sqlite3.connect(service.data / SQLITE_FILE, timeout=60) as db:
            db.execute("UPDATE users SET email_confirmed_at = 1")
        funnel_id = create(service.client, "/api/funnels", FUNNEL)["id"]
        form = {"email": "owner@example.com", "password": "correct horse battery"}
        service.client.post("/api/auth/login", json=form).raise_for_status()
        sign_in(page.context, service.url, service.client.cookies["service_session"])

        for path in (f"/funnels/{funnel_id}/share", "/settings/members", "/alerts/new"):
            page.goto(service.url + path)
            expect(page.get_by_text(f"begin with {service.url}, which works only")).to_have_count(1)
        page.goto(f"{service.url}/funnels/{funnel_id}")
        page.get_by_label("More", exact=True).click()
        page.get_by_role("link", name="Alert", exact=True).click()
        page.get_by_role("button", name="Create alert").click()
        expect(page).to_have_url(re.compile(r"/alerts/alr_\w+$"))
        expect(page.locator("#state")).to_contain_text("Checkout: unusual on a day")
        expect(page.locator("#state")).to_contain_text("owner@example.com")
        page.get_by_role("button", name="Send test").click()
        delivery = page.locator("#messages tbody tr", has_text="Test").first
        expect(delivery).to_contain_text(re.compile(r"owner@example\.com:\s+sent"))

        page.get_by_role("link", name="Edit", exact=True).click()
        page.get_by_label("Alert when the final rate is").select_option("below")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#rate-level-fault")).to_be_visible()
        page.get_by_label("Level in percent").fill("60.5")
        page.get_by_role("textbox", name="Your webhook").fill("http://10.0.0.1/1")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#field-webhook-fault")).to_contain_text("PENSTOCK_OUTBOUND_NETWORKS")
        page.get_by_role("textbox", name="Your webhook").fill("https://hooks.example.com/1")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#secret")).to_contain_text("whsec_")
        page.get_by_role("button", name="Done").click()
        expect(page.locator("#state")).to_contain_text("Checkout: below 60.5% on a day")

        page.get_by_role("button", name="Snooze").first.click()
        page.locator("#snooze").get_by_role("button", name="Snooze").click()
        expect(page.locator("#state")).to_contain_text("Snoozed until")
        page.get_by_role("button", name="End the snooze").click()
        expect(page.get_by_role("button", name="Snooze").first).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state")).to_contain_text("Paused")

        page.goto(f"{service.url}/settings/account")
        page.get_by_label("Funnels", exact=True).select_option("chosen")
        page.get_by_role("button", name="Subscribe").click()
        expect(page.locator("#digest-funnels-fault")).to_be_visible()
        page.get_by_label("Checkout").check()
        page.get_by_role("button", name="Subscribe").click()
        expect(page.locator("#digest")).to_contain_text("Next email")
        subscription = service.client.get("/api/auth/digest").json()
        assert subscription["funnelIds"] == [funnel_id]
        zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
        assert subscription["timezone"] == zone
        page.get_by_role("button", name="Unsubscribe").click()
        expect(page.locator("#digest")).not_to_contain_text("Next email")
