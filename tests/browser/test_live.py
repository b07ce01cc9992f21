"""Events as they arrive, and rejected events."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.watching import assert_accessible
from tests.records import create, event_steps, new_website, track


def send(account, website, name, **more):
    track(account.client, website, **{"name": name, "visitorId": "ann", **more})


def rows(page):
    return page.locator("#stream .event-row")


def poll(page, times):
    """Wait until the page has polled for new events that often."""
    for _ in range(times):
        with page.expect_response(re.compile("[?&]after=")) as response:
            pass
        response.value.finished()


@pytest.mark.slow("waits for several polls of the page")
def test_an_event_appears_by_itself_on_top_and_leads_to_its_visitor(
    signed_in, account, website, watch
):
    signed_in.goto("/live")
    expect(signed_in.get_by_role("heading", name="No events yet")).to_be_visible()
    send(account, website, "signed_up", properties={"plan": "pro", "seats": 3})
    expect(rows(signed_in)).to_have_count(1)
    send(account, website, "paid", visitorId="a/b c")
    expect(rows(signed_in)).to_have_count(2)
    expect(rows(signed_in).first).to_contain_text("paid")
    first = rows(signed_in).nth(1)
    first.locator("summary").press("Enter")
    expect(first.get_by_text('"pro"')).to_be_visible()
    expect(first.get_by_role("definition").filter(has_text="Shop")).to_be_visible()
    assert_accessible(signed_in)
    poll(signed_in, 2)
    expect(first.get_by_text('"pro"')).to_be_visible()
    rows(signed_in).first.get_by_role("link", name="a/b c").first.click()
    expect(signed_in.get_by_role("heading", level=1, name="a/b c")).to_be_visible()
    expect(signed_in.get_by_role("region", name="Timeline")).to_contain_text("paid")


def test_a_row_shows_its_properties_and_the_page_how_many_arrive(signed_in, account, website):
    send(account, website, "paid", properties={"plan": "pro", "seats": 3, "annual": True})
    send(account, website, "seen", properties={f"p{n}": n for n in range(7)})
    signed_in.goto("/live")
    many, paid = rows(signed_in).nth(0), rows(signed_in).nth(1)
    for text in ("plan pro", "seats 3", "annual true"):
        expect(paid.locator("summary")).to_contain_text(text)
    expect(many.locator("summary .property")).to_have_count(4)
    expect(many.locator("summary")).to_contain_text("+3")
    expect(signed_in.get_by_text("2 per minute")).to_be_visible()


@pytest.mark.slow("waits for several polls of the page")
@pytest.mark.usefixtures("context")  # for its clock
def test_a_paused_list_stays_and_then_catches_up(signed_in, account, website, watch):
    signed_in.clock.install()
    send(account, website, "before")
    signed_in.goto("/live")
    expect(rows(signed_in)).to_have_count(1)
    poll(signed_in, 1)
    signed_in.get_by_role("button", name="Pause").press("Space")
    expect(signed_in.get_by_role("status").filter(has_text="Paused")).to_be_visible()
    send(account, website, "meanwhile")
    for _ in range(4):
        signed_in.clock.fast_forward(1500)
    signed_in.wait_for_timeout(500)
    expect(rows(signed_in)).to_have_count(1)
    signed_in.get_by_role("button", name="Pause").press("Space")
    expect(rows(signed_in)).to_have_count(2)
    expect(rows(signed_in).first).to_contain_text("meanwhile")


@pytest.mark.slow("waits for several polls of the page")
def test_filters_apply_to_present_and_to_new_events(signed_in, account, website, watch):
    other = new_website(account.client, "Blog")
    send(account, website, "a", droppedBefore=2)
    send(account, other, "b")
    signed_in.goto("/live")
    expect(rows(signed_in)).to_have_count(2)
    lost = signed_in.get_by_text("lost on devices")
    expect(lost).to_contain_text("2 events")
    signed_in.get_by_label("Website or app").select_option("Blog")
    expect(rows(signed_in)).to_have_count(1)
    expect(lost).to_have_count(0)
    signed_in.get_by_label("Name or path").fill("c")
    expect(rows(signed_in)).to_have_count(0)
    for name, where in (("c", website), ("d", other), ("c", other)):
        send(account, where, name, droppedBefore=1)
    expect(rows(signed_in)).to_have_count(1)
    expect(lost).to_contain_text("2 events")
    poll(signed_in, 2)
    expect(rows(signed_in)).to_have_count(1)
    signed_in.reload()
    expect(signed_in.get_by_label("Name or path")).to_have_value("c")
    expect(rows(signed_in)).to_have_count(1)


def test_an_attempt_of_a_saved_funnel_is_shown_and_narrows_the_list(
    signed_in, account, website, watch
):
    unit = {"countingUnit": "attempt", "attemptProperty": "checkoutId"}
    funnel = {"name": "F", "steps": event_steps("started", "paid"), **unit}
    create(account.client, "/api/funnels", funnel)
    send(account, website, "started", properties={"checkoutId": "c-1"})
    send(account, website, "started", properties={"checkoutId": "c-2"})
    signed_in.goto("/live")
    rows(signed_in).filter(has_text="c-1").get_by_title("Only this attempt").click()
    expect(rows(signed_in)).to_have_count(1)
    expect(signed_in.get_by_text("Only checkoutId c-1")).to_be_visible()
    signed_in.get_by_role("link", name="Show all").click()
    expect(rows(signed_in)).to_have_count(2)


def test_rejected_events_appear_with_their_reasons(signed_in, account, website, watch):
    signed_in.goto("/live")
    signed_in.get_by_role("link", name="Rejected").click()
    expect(signed_in.get_by_role("heading", name="No rejected events")).to_be_visible()
    wrong = {"websiteId": website, "type": "event", "visitorId": "ann", "timestamp": "yesterday"}
    assert account.client.post("/api/track", json=wrong).status_code == 422
    expect(rows(signed_in)).to_have_count(1)
    for field in ("name", "timestamp"):
        expect(rows(signed_in).locator(".reasons code").filter(has_text=field)).to_be_visible()
    rows(signed_in).get_by_text("Event as sent").press("Enter")
    expect(rows(signed_in).get_by_text('"yesterday"')).to_be_visible()
    assert_accessible(signed_in)


def test_rejected_events_are_tried_again_for_the_website_on_the_screen(
    signed_in, account, website, watch
):
    other = new_website(account.client, "Blog")
    for each in (website, other):
        wrong = {"websiteId": each, "type": "event", "visitorId": "ann", "timestamp": "yesterday"}
        assert account.client.post("/api/track", json=wrong).status_code == 422
    signed_in.goto(f"/refused?websiteId={website}")
    signed_in.get_by_label("Website or app").select_option("Blog")
    expect(rows(signed_in)).to_contain_text("Blog")
    expect(signed_in.get_by_role("link", name="Export")).to_have_attribute(
        "href", re.compile(other)
    )
    with signed_in.expect_request("**/api/events/refused/replay") as sent:
        signed_in.get_by_role("button", name="Try all again").click()
    assert sent.value.post_data_json == {"websiteId": other}
    signed_in.get_by_label("Website or app").select_option("All")
    expect(rows(signed_in)).to_have_count(2)
    expect(signed_in.get_by_role("button", name="Try all again")).to_have_count(0)
    assert_accessible(signed_in)


def test_the_list_says_that_the_session_has_ended(signed_in, account, website, watch):
    signed_in.goto("/live")
    account.client.post("/api/auth/logout").raise_for_status()
    expect(signed_in.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    watch.allow("401")


@pytest.mark.usefixtures("context")  # for its clock
def test_the_date_of_an_older_event_does_not_cover_its_source(signed_in, account, website):
    send(account, website, "signed_up")
    signed_in.clock.set_fixed_time(signed_in.evaluate("Date.now() + 86400000 * 2"))
    signed_in.goto("/live")
    when = rows(signed_in).first.locator(".when time")
    expect(when).to_contain_text("20")
    source = rows(signed_in).first.locator(".source").bounding_box()
    time = when.bounding_box()
    assert time["x"] + time["width"] <= source["x"]
