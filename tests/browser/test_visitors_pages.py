"""Finding visitors, and everything about one."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.watching import assert_accessible
from tests.records import create, event_steps, new_key, new_website, send_events, track


def seen(account, website, visitor, name="seen", **more):
    track(account.client, website, visitorId=visitor, name=name, **more)


def identify(account, website, visitor, user, **traits):
    body = {"websiteId": website, "visitorId": visitor, "userId": user, "traits": traits}
    account.client.post("/api/identify", json=body).raise_for_status()


def merged(account, website):
    """`phone` and `laptop`, both of the user u-1; the ID that both have now."""
    for visitor in ("phone", "laptop"):
        seen(account, website, visitor, f"on_{visitor}")
        identify(account, website, visitor, "u-1", plan="pro")
    people = account.client.get("/api/visitors", params={"search": "u-1"}).json()["data"]
    return people[0]["visitorId"]


def test_a_visitor_is_found_by_any_of_its_ids(signed_in, account, website, watch):
    canonical_id = merged(account, website)
    seen(account, website, "somebody")
    people = signed_in.locator("td.main a")
    for searched in ("u-1", "phone", "laptop"):
        signed_in.goto("/visitors")
        expect(people).to_have_text(["somebody", "u-1"])
        signed_in.get_by_label("Visitor ID or user ID, or a part").fill(searched)
        expect(people).to_have_text(["u-1"])
    expect(signed_in.locator("td.main")).to_contain_text(canonical_id)
    expect(signed_in.locator("[data-label='Last event']")).to_contain_text("on_laptop")
    people.press("Enter")
    expect(signed_in.get_by_role("heading", level=1, name="u-1")).to_be_visible()
    expect(signed_in.locator(".event-row strong")).to_have_text(["on_laptop", "on_phone"])
    expect(signed_in.locator(".merges li")).to_have_count(1)
    expect(signed_in.get_by_text("plan")).to_be_visible()
    assert_accessible(signed_in)


def test_visitors_of_an_import_are_found_although_the_list_is_empty(
    signed_in, account, website, watch
):
    seen(account, website, "of-2024", timestamp="2024-05-01T10:00:00Z")
    signed_in.goto("/visitors")
    expect(signed_in.get_by_role("heading", name="No visitors in this period")).to_be_visible()
    expect(signed_in.get_by_text("A complete ID finds a visitor at any time")).to_be_visible()
    signed_in.get_by_label("Visitor ID or user ID").fill("of-2024")
    expect(signed_in.get_by_role("link", name="of-2024")).to_be_visible()


def test_filters_suggest_events_traits_and_their_values(signed_in, account, website, watch):
    merged(account, website)
    seen(account, website, "somebody", "bought")
    signed_in.goto("/visitors")
    people = signed_in.locator("td.main a")
    expect(people).to_have_count(2)
    for label, typed, option in (("Trait", "pl", "plan"), ("Value of the trait", "", "pro")):
        signed_in.get_by_label(label, exact=True).click()
        signed_in.keyboard.type(typed)
        signed_in.get_by_role("option", name=option).click()
    expect(people).to_have_text(["u-1"])
    signed_in.goto("/visitors")
    signed_in.get_by_label("Event or page").fill("bou")
    signed_in.get_by_label("Event or page").press("ArrowDown")
    signed_in.get_by_role("option", name="bought").click()
    expect(people).to_have_text(["somebody"])
    assert_accessible(signed_in)


def test_an_unknown_visitor_has_a_message(signed_in, account, website, watch):
    signed_in.goto("/visitors?search=nobody")
    expect(signed_in.get_by_role("heading", name="No matching visitors")).to_be_visible()
    signed_in.goto("/visitors/nobody")
    expect(signed_in.get_by_role("heading", name="Page not found")).to_be_visible()
    watch.allow("404")


def test_an_id_of_several_visitors_leads_to_the_list_of_them(signed_in, account, website, watch):
    other = new_website(account.client, "Blog")
    seen(account, website, "ann", "in_shop")
    seen(account, other, "ann", "in_blog")
    signed_in.goto("/visitors/ann")
    expect(signed_in.locator("td.main")).to_have_count(2)
    signed_in.get_by_role("row", name="Blog").get_by_role("link").click()
    expect(signed_in.locator(".event-row strong")).to_have_text(["in_blog"])


def test_a_part_of_an_id_and_filters_find_visitors(signed_in, account, website, watch):
    seen(account, website, "ann-on-her-phone", "signed_up")
    seen(account, website, "bob-at-work", "paid")
    signed_in.goto("/visitors")
    expect(signed_in.locator("td.main")).to_have_count(2)
    signed_in.get_by_label("Visitor ID or user ID, or a part").fill("PHONE")
    expect(signed_in.locator("td.main")).to_have_text(["ann-on-her-phone"])
    signed_in.get_by_label("Visitor ID or user ID, or a part").fill("")
    signed_in.get_by_label("Event or page").fill("paid")
    expect(signed_in.locator("td.main")).to_have_text(["bob-at-work"])
    signed_in.get_by_label("Country").fill("FR")
    expect(signed_in.get_by_role("heading", name="No matching visitors")).to_be_visible()
    assert_accessible(signed_in)


@pytest.mark.full("typed instead of chosen")
def test_a_trait_and_its_value_find_visitors(signed_in, account, website, watch):
    for name, plan in (("ann", "pro"), ("bob", "basic")):
        seen(account, website, name, "signed_up")
        identify(account, website, name, name, plan=plan)
    seen(account, website, "nobody", "signed_up")
    signed_in.goto("/visitors")
    expect(signed_in.locator("td.main")).to_have_count(3)
    signed_in.get_by_label("Trait", exact=True).fill("plan")
    expect(signed_in.locator("td.main")).to_have_count(2)
    signed_in.get_by_label("Value of the trait").fill("pro")
    expect(signed_in.locator("td.main")).to_have_count(1)
    expect(signed_in.locator("td.main")).to_have_text(["ann"])
    signed_in.get_by_label("Value of the trait").fill("free")
    expect(signed_in.get_by_role("heading", name="No matching visitors")).to_be_visible()
    assert_accessible(signed_in)


def test_a_timeline_is_divided_into_sessions_with_their_day(signed_in, account, website, watch):
    ann = {"websiteId": website, "visitorId": "ann"}
    events = [
        {**ann, "event": name, "externalSessionId": session, "timestamp": at}
        for name, session, at in (
            ("a", "one", "2026-01-01T10:00:00Z"),
            ("b", "one", "2026-01-01T10:03:00Z"),
            ("c", "two", "2026-01-02T09:00:00Z"),
        )
    ]
    send_events(account.client, events, new_key(account.client))
    signed_in.goto(f"/visitors/ann?websiteId={website}")
    lines = signed_in.locator("#timeline li")
    expect(lines.nth(0)).to_contain_text("2 Jan 2026, 10:00")
    expect(lines.nth(0)).to_contain_text("1 event")
    expect(lines.nth(2)).to_contain_text("1 Jan 2026, 11:00")
    expect(lines.nth(2)).to_contain_text("2 events in 3m")
    expect(lines.nth(3)).to_contain_text("b")
    expect(lines).to_have_count(5)


def test_a_visitor_s_page_lists_the_funnels_that_it_entered(signed_in, account, website, watch):
    for name, steps in (("Entered", ("a", "b", "c")), ("Other", ("x", "y"))):
        create(account.client, "/api/funnels", {"name": name, "steps": event_steps(*steps)})
    for name in ("a", "b"):
        seen(account, website, "ann", name)
    signed_in.goto(f"/visitors/ann?websiteId={website}")
    funnels = signed_in.get_by_role("region", name="Funnels")
    expect(funnels.get_by_role("listitem")).to_have_count(1)
    expect(funnels).to_contain_text("Pending, step 2 of 3")
    assert_accessible(signed_in)
    funnels.get_by_role("link", name="Entered").click()
    expect(signed_in).to_have_url(re.compile("/units/ann"))
    expect(
        signed_in.get_by_role("region", name="Timeline").or_(signed_in.locator("#timeline"))
    ).to_contain_text("b")


def test_a_timeline_is_paged(signed_in, account, website, watch):
    for number in range(25):
        seen(account, website, "ann", f"e{number}", timestamp=f"2026-01-01T00:00:{number:02}Z")
    signed_in.goto(f"/visitors/ann?websiteId={website}")
    expect(signed_in.locator(".event-row strong").first).to_have_text("e24")
    signed_in.get_by_role("link", name="Next").click()
    expect(signed_in.locator(".event-row strong")).to_have_text(
        [f"e{number}" for number in range(4, -1, -1)]
    )
    signed_in.locator(".event-row summary").first.press("Enter")
    expect(signed_in.get_by_text("No properties.").first).to_be_visible()


def test_the_list_does_not_shift_while_it_loads(demo_page):
    demo_page.add_init_script(
        """window.shifts = 0;
        new PerformanceObserver((list) => {
          for (const shift of list.getEntries()) window.shifts += shift.value;
        }).observe({ type: "layout-shift", buffered: true });"""
    )
    demo_page.set_viewport_size({"width": 1440, "height": 900})
    demo_page.goto("/visitors")
    expect(demo_page.locator("time[data-style=ago]").first).to_contain_text("ago")
    demo_page.wait_for_timeout(300)
    assert demo_page.evaluate("window.shifts") < 0.02


@pytest.mark.full("another width")
def test_the_filters_fill_their_rows_and_names_of_events_fit_at_768_px(demo_page):
    demo_page.set_viewport_size({"width": 768, "height": 1024})
    demo_page.goto("/visitors?search=bob")
    fields = [field.bounding_box() for field in demo_page.locator(".visitor-filters > *").all()]
    rows = {round(field["y"] + field["height"]) for field in fields}
    ends = [
        max(
            field["x"] + field["width"]
            for field in fields
            if round(field["y"] + field["height"]) == row
        )
        for row in rows
    ]
    assert len(rows) == 2
    assert max(ends) - min(ends) <= 1
    name = demo_page.locator("#list bdi", has_text="newsletter_subscribed").first
    assert name.bounding_box()["height"] < 30
    assert_accessible(demo_page)
