"""Segments and internal traffic: their forms, and how a report applies them."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.watching import assert_accessible
from tests.records import create, event_steps, track
from tests.waiting import eventually

STEPS = event_steps("started", "paid")
FUNNEL = {"name": "Checkout", "steps": STEPS, "conversionWindowSeconds": 86_400}


@pytest.fixture
def report(account, website):
    """The address of a report on two customers and one person of the staff."""
    client = account.client
    people = (("ann", {"plan": "pro"}), ("bob", {"plan": "free"}), ("eve", {"host": "localhost"}))
    for visitor, properties in people:
        track(client, website, visitorId=visitor, name="started", properties=properties)
    funnel = create(client, "/api/funnels", FUNNEL)["id"]
    address = f"/funnels/{funnel}?timezone=UTC"
    eventually(lambda: client.get(f"/api/funnels/{funnel}/results").json()["aggregate"]["entered"])
    return address


def entered(page):
    return page.locator("#overview").get_by_text("Entered", exact=True).locator("..")


def test_a_segment_is_created_changed_and_deleted(signed_in, account, report, watch):
    signed_in.goto("/segments")
    signed_in.get_by_role("link", name="Create a segment").click()
    signed_in.get_by_label("Name").fill("Paying")
    signed_in.get_by_role("button", name="Save segment").click()
    expect(signed_in.get_by_label("Property")).to_have_attribute("aria-invalid", "true")
    assert_accessible(signed_in)
    signed_in.get_by_label("Property").fill("pla")
    signed_in.get_by_role("option", name="plan").click()
    signed_in.get_by_label("Operator").select_option("is not")
    signed_in.get_by_label("Value", exact=True).fill("free")
    signed_in.get_by_role("button", name="Add a filter").click()
    signed_in.get_by_label("Property").nth(1).fill("plan")
    signed_in.get_by_label("Operator").nth(1).select_option("is set")
    signed_in.keyboard.press("Escape")
    signed_in.get_by_role("button", name="Save segment").click()
    row = signed_in.get_by_role("row", name="Paying")
    expect(row).to_contain_text("plan not equals free and plan is set")
    row.get_by_role("link", name="Paying").click()
    expect(signed_in.get_by_label("Value", exact=True)).to_have_value("free")
    signed_in.get_by_role("button", name="Remove this filter").nth(1).click()
    expect(signed_in.get_by_role("button", name="Remove this filter")).to_be_focused()
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(row).to_contain_text("plan not equals free")
    [saved] = account.client.get("/api/segments").json()["data"]
    assert saved["revision"] == 2
    assert saved["filters"] == [{"property": "plan", "operator": "not_equals", "value": "free"}]
    signed_in.get_by_role("button", name="Delete Paying").click()
    dialog = signed_in.get_by_role("dialog", name="Delete this segment?")
    dialog.get_by_role("button", name="Delete").click()
    expect(signed_in.get_by_text("No segments yet")).to_be_visible()
    watch.allow("422")


PAYING = {"property": "plan", "operator": "is_set"}
GOAL = {"name": "Bought", "match": {"type": "Event", "value": "paid"}}


@pytest.mark.parametrize(
    ("records", "body", "change"),
    [
        ("segments", {"name": "Paying", "filters": [PAYING]}, {"filters": [PAYING] * 2}),
        pytest.param(
            "goals",
            GOAL,
            {"match": {"type": "Event", "value": "bought"}},
            marks=pytest.mark.full("another record"),
        ),
    ],
    ids=["segment", "goal"],
)
def test_a_form_does_not_overwrite_a_newer_revision(
    signed_in, account, watch, records, body, change
):
    path = f"/api/{records}/{create(account.client, f'/api/{records}', body)['id']}"
    signed_in.goto(f"{path.removeprefix('/api')}/edit")
    account.client.patch(path, json=change).raise_for_status()
    signed_in.get_by_label("Name").fill("Mine")
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(signed_in.get_by_role("alert")).to_contain_text("Not saved, because someone else")
    assert account.client.get(path).json()["name"] == body["name"]
    watch.allow("409")


@pytest.mark.full("tests/web/test_segment_pages.py has the same without a browser")
def test_filters_of_a_report_become_a_segment_that_its_menu_offers(signed_in, report):
    pro = json.dumps([{"property": "plan", "operator": "equals", "value": "pro"}])
    signed_in.goto(f"{report}&filters={pro}")
    signed_in.get_by_role("button", name="Save as segment").click()
    dialog = signed_in.get_by_role("dialog", name="Save these filters as a segment")
    assert_accessible(signed_in)
    dialog.get_by_label("Name").fill("Paying")
    dialog.get_by_role("button", name="Save").click()
    expect(signed_in.get_by_role("list", name="Filter")).to_contain_text("Segment: Paying")
    expect(entered(signed_in)).to_contain_text("1")
    signed_in.get_by_role("link", name="Remove the segment").click()
    expect(entered(signed_in)).to_contain_text("3")
    signed_in.locator("summary").get_by_text("Filter", exact=True).click()
    assert_accessible(signed_in)
    signed_in.get_by_role("link", name="Paying").click()
    expect(entered(signed_in)).to_contain_text("1")


@pytest.mark.full("tests/web/test_segment_pages.py has the same without a browser")
def test_reports_leave_out_internal_traffic_and_include_it_again(signed_in, report):
    signed_in.goto("/settings/internal-traffic")
    signed_in.get_by_role("button", name="Add a filter").click()
    signed_in.get_by_label("Property").fill("host")
    signed_in.keyboard.press("Escape")
    signed_in.get_by_label("Value", exact=True).fill("localhost")
    signed_in.get_by_role("button", name="Save").click()
    expect(signed_in.get_by_text("Saved. All reports use the new filters.")).to_be_visible()
    expect(signed_in.get_by_label("Value", exact=True)).to_have_value("localhost")
    assert_accessible(signed_in)
    signed_in.goto(report)
    expect(entered(signed_in)).to_contain_text("2")
    chips = signed_in.get_by_role("list", name="Filter")
    expect(chips).to_contain_text("Internal traffic left out")
    assert_accessible(signed_in)
    chips.get_by_role("link", name="Include").click()
    expect(entered(signed_in)).to_contain_text("3")
    chips.get_by_role("link", name="Leave out").click()
    expect(entered(signed_in)).to_contain_text("2")
    signed_in.goto("/settings/internal-traffic")
    signed_in.get_by_role("button", name="Remove this filter").click()
    signed_in.get_by_role("button", name="Save").click()
    expect(signed_in.get_by_text("Saved. All reports use the new filters.")).to_be_visible()
    signed_in.goto(report)
    expect(entered(signed_in)).to_contain_text("3")
    expect(chips).to_have_count(0)
