"""The journey of a new user: from a fresh service to a report, and to a resolved link."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from penstock.cli.simulate import evidence_of
from tests import user_agents
from tests.browser.conftest import patient, sign_up
from tests.browser.test_links_pages import expect_totals
from tests.links.management.test_qr import expected_modules, modules
from tests.other_programs import run_program
from tests.records import send_events
from tests.serving import http_client

HOUR = timedelta(hours=1)
ATTEMPTS = {
    "order-1": [("checkout_started", 3 * HOUR), ("order_paid", 2 * HOUR)],
    "order-2": [("checkout_started", HOUR)],
    "order-3": [("checkout_started", 200 * HOUR)],
}
"""Events of each, and how long ago: the first completed, the second is pending, the third late."""

PHONES = {"ios": user_agents.IOS["safari"], "android": user_agents.ANDROID["samsung"]}


@pytest.mark.full("opens in one journey what other tests open one by one")
@pytest.mark.slow("starts a service and visits every area")
def test_from_a_fresh_service_to_a_read_funnel_and_a_scanned_link_that_was_resolved(
    service, page, browser, watch, tmp_path
):
    page.goto("/")
    sign_up(page)
    key, website_id = send_first_event(page)
    send_attempts(service.url, key, website_id)
    build_funnel(page)
    read_report(page)

    add_app(page)
    address = make_link(page, tmp_path)
    for number, platform in enumerate(PHONES, 1):
        evidence = scan(browser, address, platform)
        resolve(service.url, page, evidence, platform)
        see_match(page, platform, number)
        page.go_back()
    watch.allow("422")  # previews of an unfinished funnel


def send_first_event(page):
    """The key and the ID of the website, from the line that was copied."""
    page.get_by_label("Name").fill("Shop")
    page.get_by_role("button", name="Add website").click()
    page.get_by_role("button", name="Create a key and show the curl command").click()
    line = page.locator("#curl")
    expect(line).to_contain_text("Bearer psk_")
    copied = line.inner_text()
    run_program(["bash", "-c", copied], may_warn=True)
    expect(page.get_by_text("The first event has arrived")).to_be_visible()
    expect(page.locator("#arrival")).to_contain_text("signed_up")
    page.get_by_role("link", name="Continue").click()
    return re.search(r"psk_[\w-]+", copied)[0], json.loads(re.search(r"-d '(.+)'", copied)[1])[
        "websiteId"
    ]


def send_attempts(url, key, website_id):
    now = datetime.now(UTC)
    events = [
        {
            "websiteId": website_id,
            "event": name,
            "userId": f"buyer of {attempt}",
            "timestamp": (now - ago).isoformat(),
            "properties": {"orderId": attempt},
        }
        for attempt, events in ATTEMPTS.items()
        for name, ago in events
    ]
    with http_client(url) as client:
        send_events(client, events, key)


def build_funnel(page):
    page.get_by_role("link", name="Build a funnel").click()
    page.get_by_label("Name", exact=True).fill("Checkout")
    page.get_by_text("Attempts", exact=True).click()
    page.get_by_label("Attempt property").fill("ord")
    page.get_by_role("option", name="orderId").click()
    for number, begin, name in ((1, "check", "checkout_started 3"), (2, "ord", "order_paid 1")):
        page.get_by_role("group", name=f"Step {number}", exact=True).get_by_label("Value").fill(
            begin
        )
        page.get_by_role("option", name=name).click()
    expect(page.locator("#preview [data-sums]")).to_contain_text("3 attempts entered")
    page.get_by_role("button", name="Save funnel").click()


def read_report(page):
    """The numbers, and from those who left to what one of them did.

    The rate is of settled attempts: the one that completed may still be in its window.
    """
    figures = {"entered": "3", "rate": "0.0%", "pending": "1", "early": "1"}
    for name, expected in figures.items():
        expect(page.locator(f"#{name}")).to_have_text(expected)
    page.locator("#step-1 summary").click()
    expect(page.locator("#step-1 .stays")).to_have_text("1 pending")
    expect(page.locator("#step-1 .leaves")).to_contain_text("1 dropped off")
    page.locator("#step-1 .leaves").get_by_role("link").first.click()
    page.get_by_role("link", name="order-3").click()
    expect(page.get_by_label("Summary")).to_contain_text("Dropped off")
    expect(page.locator(".decided h2")).to_have_text(["checkout_started"])
    page.get_by_label("Summary").locator("dl a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("buyer of order-3")


def add_app(page):
    page.get_by_role("link", name="Links").click()
    page.get_by_role("link", name="Add an app").click()
    page.get_by_text("A mobile app").click()
    page.get_by_label("Name").fill("Acme app")
    page.get_by_label("App Store page").fill("https://apps.apple.com/app/id123456789")
    page.get_by_label("Package").fill("com.acme.shop")
    page.get_by_label("Google Play page").fill(
        "https://play.google.com/store/apps/details?id=com.acme.shop"
    )
    page.get_by_label("URL scheme").fill("acmeshop")
    page.get_by_role("button", name="Add website").click()
    expect(page.get_by_role("heading", level=1, name="Acme app")).to_be_visible()


def make_link(page, tmp_path):
    """The address that the downloaded code holds."""
    page.get_by_role("link", name="Create a link").click()
    expect(page.get_by_label("App", exact=True)).to_have_value(re.compile("^web_"))
    page.get_by_label("Name", exact=True).fill("Spring sale")
    page.get_by_label("Destination in the app").fill("/offers/42")
    page.get_by_label("Campaign").fill("spring")
    page.get_by_role("button", name="Create link").click()
    shown = page.locator(".hosted bdi")
    expect(shown).to_contain_text("/l/spring-sale")
    with page.expect_download() as downloaded:
        page.get_by_role("link", name="Download the QR code as SVG").click()
    downloaded.value.save_as(tmp_path / "code.svg")
    address = f"{shown.text_content()}?qr=1"
    assert modules((tmp_path / "code.svg").read_text("utf-8")) == expected_modules(address)
    return address


def scan(browser, address, platform):
    """A phone opens the address of the code. Returns the app's evidence from the tapped button."""
    with patient(
        browser.new_context(
            user_agent=PHONES[platform], viewport={"width": 390, "height": 844}, locale="en-GB"
        )
    ) as phone:
        landing = phone.new_page()
        landing.goto(address)
        expect(landing.get_by_role("heading", name="Acme app")).to_be_visible()
        return evidence_of(
            [link.get_attribute("href") for link in landing.get_by_role("link").all()], platform
        )


def resolve(url, page, evidence, platform):
    page.locator(".facts").get_by_role("link", name="Acme app").click()
    expect(page.get_by_role("heading", level=1, name="Acme app")).to_be_visible()
    app_id = page.url.rpartition("/")[2]
    opened = {
        "websiteId": app_id,
        "installId": f"install-{platform}",
        "platform": platform,
        "osVersion": "18.5",
        "firstOpen": True,
    }
    with http_client(url) as client:
        answer = client.post("/api/mobile/deferred-links/resolve", json=opened | evidence).json()
    assert answer["matched"] is True
    assert (answer["destinationPath"], answer["utm"]["campaign"]) == ("/offers/42", "spring")


def see_match(page, platform, number):
    """number: of the scans so far."""
    page.go_back()
    expect_totals(page, str(number), "Clicks", "Scans", "Installs")
    evidence = {"ios": "By the click token", "android": "By Google Play's install referrer"}
    matches = page.locator("#matches tbody tr")
    expect(matches).to_have_count(number)
    match = matches.filter(has_text=evidence[platform])
    match.get_by_role("link").click()
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.locator(".event-row")).to_have_count(1)
    timeline.locator("summary").click()
    expect(timeline).to_contain_text("spring")
    expect(timeline).to_contain_text("spring-sale")
    method = {"ios": "Click token", "android": "Install referrer"}[platform]
    expect(timeline).to_contain_text(method)
