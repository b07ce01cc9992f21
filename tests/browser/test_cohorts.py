"""Saved cohorts: from a list of units to a filter of a report."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import confirm
from tests.browser.watching import assert_accessible
from tests.records import create, event_steps, track
from tests.waiting import eventually

STEPS = event_steps("started", "paid")
FUNNEL = {"name": "Checkout", "steps": STEPS, "conversionWindowSeconds": 86_400}


@pytest.fixture
def funnel(account, website):
    """A funnel that ann completed and bob did not."""
    client = account.client
    for visitor, name in (("ann", "started"), ("ann", "paid"), ("bob", "started")):
        track(client, website, visitorId=visitor, name=name)
    funnel = create(client, "/api/funnels", FUNNEL)["id"]
    results = f"/api/funnels/{funnel}/results"
    eventually(lambda: client.get(results).json()["aggregate"]["completed"] == 1)
    return funnel


def test_the_people_behind_a_number_become_a_filter(signed_in, account, funnel, watch):
    page = signed_in
    page.goto(f"/funnels/{funnel}/units?timezone=UTC&period=all")
    page.locator("summary", has_text="Any outcome").click()
    page.get_by_label("Pending").check()
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Save as cohort").click()
    dialog = page.get_by_role("dialog", name="Save as cohort")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    watch.allow("422")
    assert_accessible(page)
    dialog.get_by_label("Name").fill("Not paid")
    dialog.get_by_label("Name").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not paid")
    expect(page.locator("#list tbody td.main")).to_have_text("bob")
    assert_accessible(page)
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Name").fill("Left")
    confirm(page, "Rename")
    expect(page.get_by_role("heading", level=1)).to_have_text("Left")
    [cohort] = account.client.get("/api/cohorts").json()["data"]
    assert (cohort["kind"], cohort["visitors"]) == ("list", 1)
    page.goto(f"/funnels/{funnel}?timezone=UTC&period=all")
    page.locator("summary", has_text="Filter").click()
    page.get_by_role("link", name="Left").click()
    expect(page.locator("#entered")).to_have_text("1")
    expect(page.locator(".chips")).to_contain_text("in cohort Left")
    query = parse_qs(urlsplit(page.url).query)
    assert json.loads(query["filters"][0]) == [
        {"property": "$cohort", "operator": "equals", "value": cohort["id"]}
    ]
    assert_accessible(page)
    page.goto("/cohorts")
    page.get_by_role("button", name="Delete Left").click()
    confirm(page, "Delete")
    expect(page.get_by_text("No cohorts yet")).to_be_visible()
    assert_accessible(page)


def test_a_report_is_broken_down_by_a_cohort(signed_in, account, funnel):
    page, client = signed_in, account.client
    lost = {"name": "Lost", "kind": "list", "funnelId": funnel, "parameters": {"step": "1"}}
    lost["parameters"]["outcome"] = "pending"
    cohort = create(client, "/api/cohorts", lost)
    page.goto(f"/funnels/{funnel}?timezone=UTC&period=all")
    page.locator("summary", has_text="Break down").click()
    page.get_by_role("link", name="Lost").click()
    expect(page.locator("#cohorts th").filter(has_text="Lost")).to_be_visible()
    expect(page.locator("#cohorts tbody td.main")).to_have_text(["in", "out"])
    page.locator("summary", has_text="By Lost").click()
    expect(page.get_by_text("Saved cohort Lost")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(f"$cohort.{cohort['id']}")
    assert_accessible(page)
    page.goto(f"/funnels/{funnel}/edit")
    page.get_by_role("button", name="Add a property").click()
    page.get_by_role("option", name="Lost").click()
    page.get_by_role("button", name="Save").first.click()
    page.wait_for_url("**/funnels/*")
    saved = client.get(f"/api/funnels/{funnel}").json()
    assert saved["breakdownProperties"] == [f"$cohort.{cohort['id']}"]


def test_a_search_finds_cohorts_of_all_pages_and_keeps_the_field(signed_in, account, website):
    client, page = account.client, signed_in
    plans = [f"plan {number:02}" for number in range(25)]
    for plan in plans:
        track(client, website, visitorId=plan, name="started", properties={"plan": plan})
    body = FUNNEL | {"breakdownProperties": ["plan"]}
    funnel = create(client, "/api/funnels", body)["id"]
    results = f"/api/funnels/{funnel}/results"
    eventually(lambda: client.get(results).json()["aggregate"]["entered"] == len(plans))
    page.goto(f"/funnels/{funnel}?timezone=UTC&period=all&show=cohorts")
    rows = page.locator("#cohorts tbody td.main")
    expect(rows).to_have_count(20)
    search = page.get_by_role("searchbox", name="Find cohorts by value")
    search.press_sequentially("PLAN 24", delay=20)
    expect(rows).to_have_text(["plan 24"])
    expect(search).to_be_focused()
    expect(search).to_have_value("PLAN 24")
    expect(page.locator("#entered")).to_have_text("25")
    assert parse_qs(urlsplit(page.url).query)["search"] == ["PLAN 24"]
    assert_accessible(page)
    page.reload()
    expect(rows).to_have_text(["plan 24"])
    expect(page.locator("#entered")).to_have_text("25")
    search.fill("none of them")
    expect(page.get_by_text("No value contains “none of them”.")).to_be_visible()
    search.fill("")
    expect(rows).to_have_count(20)
