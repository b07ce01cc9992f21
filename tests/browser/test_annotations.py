"""Annotations on the tab Trend: added, read at the pointer and in a list, deleted."""

import time

from playwright.sync_api import expect

from tests.browser.conftest import confirm
from tests.browser.watching import assert_accessible, assert_fits
from tests.records import create, event_steps, new_key, new_website, send_events

DAY_MS = 86_400_000


def funnel_with_entries(account):
    website, now_ms = new_website(account.client), int(time.time() * 1000)
    events = [
        {
            "websiteId": website,
            "userId": f"u{day}",
            "event": "A",
            "timestamp": now_ms - day * DAY_MS,
        }
        for day in range(5)
    ]
    send_events(account.client, events, new_key(account.client))
    return create(account.client, "/api/funnels", {"name": "Own", "steps": event_steps("A", "B")})[
        "id"
    ]


def test_an_annotation_is_added_read_and_deleted(signed_in, account):
    page = signed_in
    page.goto(f"/funnels/{funnel_with_entries(account)}?show=trend&timezone=UTC")
    drawing = page.locator("#trend svg.drawing")
    expect(drawing).to_be_visible()
    page.get_by_role("button", name="Annotate").click()
    dialog = page.get_by_role("dialog", name="Add an annotation")
    dialog.get_by_label("Text").fill("<b>Release</b> 4.2")
    assert_accessible(page)
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Annotation added.")).to_be_visible()
    expect(drawing.locator("line[stroke-dasharray]")).to_have_count(1)
    expect(drawing.get_by_text("<b>Release</b> 4.2")).to_be_visible()
    box = drawing.bounding_box()
    drawing.hover(position={"x": box["width"] - 30, "y": 60})
    expect(page.locator("#trend .chart-tip .note")).to_have_text("<b>Release</b> 4.2")
    notes = page.locator("#annotations")
    expect(notes.locator("summary")).to_have_text("1 annotation")
    expect(notes.get_by_role("listitem")).to_contain_text("<b>Release</b> 4.2")
    page.set_viewport_size({"width": 360, "height": 800})
    assert_fits(page)
    notes.get_by_role("button", name="Delete <b>Release</b> 4.2").click()
    confirm(page, "Delete", "Delete this annotation?")
    expect(notes).to_have_count(0)
