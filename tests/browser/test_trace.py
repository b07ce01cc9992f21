"""The trace of one unit: each decision in words, beside its event."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.test_report import loaded
from tests.browser.watching import assert_accessible, assert_fits
from tests.records import create, event_steps, new_key, send_events

ISO_TIME = r"\d{4}-\d\d-\d\dT[\d:.]+Z"
T0 = 1_780_000_000_000
FUNNEL = {
    "name": "Checkout",
    "countingUnit": "attempt",
    "attemptProperty": "checkoutId",
    "sequenceProperty": "n",
    "breakdownProperties": ["plan"],
    "conversionWindowSeconds": 3600,
    "steps": [
        *event_steps("begun", "address"),
        {"type": "Event", "value": "failed", "diagnostic": True},
        *event_steps("paid"),
    ],
}


@pytest.fixture
def traced(signed_in, account, website, watch):
    """Opens the trace of an attempt. events: name, seconds, and further properties."""

    def opened(unit, events, **changes):
        sent_events = [
            {
                "websiteId": website,
                "userId": "ada",
                "event": name,
                "timestamp": T0 + seconds * 1000,
                "properties": {"checkoutId": unit, **properties},
            }
            for name, seconds, properties in events
        ]
        send_events(account.client, sent_events, new_key(account.client))
        funnel = create(account.client, "/api/funnels", {**FUNNEL, **changes})["id"]
        signed_in.goto(f"/funnels/{funnel}/units/{quote(unit, safe='')}?period=all&timezone=UTC")
        loaded(signed_in)
        return signed_in

    return opened


def test_each_decision_stands_in_words_at_its_event(traced):
    page = traced(
        "order-1",
        [
            ("looked", -60, {}),
            ("begun", 0, {"n": 2, "plan": "pro"}),
            ("address", 0, {}),
            ("address", 30, {"n": 1}),
            ("address", 90, {"n": 3, "plan": "free"}),
            ("failed", 120, {}),
            ("paid", 7200, {"n": 4}),
        ],
    )
    decisions = [
        [item.locator(part).inner_text() for part in (".since", "h2", ".badge")]
        for item in page.locator(".decided").all()
    ]
    assert decisions == [
        ["before", "looked", "No match"],
        ["start", "begun", "Entry"],
        ["at once", "address", "Skipped: unordered tie"],
        ["+ 30s", "address", "Skipped: sequence number"],
        ["+ 1m 30s", "address", "Accepted"],
        ["+ 2m", "failed", "Diagnostic"],
        ["+ 2h", "paid", "Outside window"],
    ]
    expect(page.locator("#event-4")).to_contain_text(
        "Skipped: sequence number 1 is not greater than 2, the last accepted."
    )
    expect(page.locator("#event-4")).to_contain_text("Step 2")
    reason = page.get_by_label("Summary").get_by_role("heading")
    expect(reason).to_have_text(re.compile("^Dropped: no paid until .*, when the window ended$"))
    expect(page.get_by_label("Summary").locator("dd").first).to_have_text("ada")
    expect(page.get_by_label("Summary")).to_contain_text("step 2 of 3, address")
    expect(page.get_by_text("has a different plan")).to_be_visible()
    details = page.locator("#event-2 summary")
    details.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#event-2 .facts")).to_contain_text("pro")
    assert_accessible(page)


def test_the_trace_page_shows_what_the_api_answers(demo_page, demo):
    path = f"/funnels/{demo.ids['funnel']}/units/{demo.ids['unit']}"
    demo_page.goto(f"{path}?timezone=UTC")
    loaded(demo_page)
    trace = demo.service.client.get(f"/api{path}").json()
    items = demo_page.locator(".decided")
    expect(items).to_have_count(len(trace["events"]))
    for item, event in zip(items.all(), trace["events"], strict=True):
        for text in re.split(ISO_TIME, event["explanation"]):
            expect(item).to_contain_text(text)
        expect(item).not_to_contain_text(re.compile(ISO_TIME))
        expect(item).to_contain_text(event["name"])
    assert "sequenceSkip" in {event["decision"] for event in trace["events"]}
    demo_page.get_by_role("link", name="Checkout").click()
    expect(demo_page.get_by_role("heading", level=1)).to_have_text("Checkout")


def test_a_unit_is_found_by_an_id_that_is_spelt_like_an_address(traced):
    unit = "a/b?c#d%2F&e"
    page = traced(
        unit, [("begun", 0, {"plan": unit}), (unit, 1, {}), ("address", 2, {"plan": "other"})]
    )
    expect(page.locator(".decided")).to_have_count(3)
    expect(page.get_by_role("heading", level=1)).to_contain_text(unit)
    expect(page.locator("#event-2 h2")).to_have_text(unit)
    assert_fits(page)
    page.set_viewport_size({"width": 360, "height": 800})
    assert_fits(page)
    assert page.title().startswith(unit)
    page.goto(page.url.replace(f"/{quote(unit, safe='')}?", "?"))
    loaded(page)
    assert_fits(page)
    page.locator("#list td.main a").click()
    loaded(page)
    expect(page.locator(".decided")).to_have_count(3)


@pytest.mark.full("another width")
def test_long_names_of_properties_leave_room_for_their_values(traced):
    name = "plan_of_the_customer_when_the_checkout_was_started_for_the_first_time"
    page = traced("order-1", [("begun", 0, {name: "professional"})], breakdownProperties=[name])
    page.set_viewport_size({"width": 360, "height": 800})
    page.locator("#event-1 summary").click()
    for facts in page.locator(".facts").filter(has_text=name).all():
        value = facts.locator("dd").filter(has_text="professional")
        assert value.bounding_box()["width"] > 80
    assert_fits(page)


def test_an_unknown_unit_has_a_message_on_the_page(traced):
    page = traced("order-1", [("begun", 0, {})])
    page.goto(page.url.replace("order-1", "order-2"))
    loaded(page)
    expect(
        page.get_by_role("alert").filter(has_text="No event of this attempt is retained")
    ).to_be_visible()
