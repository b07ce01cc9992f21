"""The list of funnels, and goals."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CONTEXT, confirm
from tests.browser.watching import assert_accessible
from tests.records import create, event_steps

FUNNEL = {"name": "Checkout", "steps": event_steps("started", "paid")}
GOAL = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}


def saved(account, path, record, **changes):
    return create(account.client, path, record | changes)


def test_figures_are_those_of_30_days_of_the_readers_time_zone(demo_page, demo):
    demo_page.goto("/funnels")
    row = demo_page.get_by_role("row", name=re.compile("Checkout"))
    expect(
        row.get_by_role("img", name=re.compile(r"Conversion rate by day, from [\d.]+% to [\d.]+%"))
    ).to_be_visible()
    tomorrow = datetime.now(ZoneInfo(CONTEXT["timezone_id"])).replace(
        hour=0, minute=0, second=0, microsecond=0
    ) + timedelta(days=1)
    period = {
        "startAt": (tomorrow - timedelta(days=30)).isoformat(),
        "endAt": tomorrow.isoformat(),
    }
    aggregate = demo.service.client.get(
        f"/api/funnels/{demo.ids['funnel']}/results", params=period
    ).json()["aggregate"]
    expect(row.get_by_role("cell").nth(1)).to_have_text(f"{aggregate['entered']:,}")
    # The rate of the API is rounded to four decimals, and rounding it again can differ.
    rate = (aggregate["completed"] - aggregate["earlyCompletions"]) / aggregate["settled"]
    expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(rf"^{rate:.1%}(forecast|$)"))
    assert_accessible(demo_page)


def test_the_address_of_a_funnel_has_the_time_zone_once(signed_in, account):
    for number in range(3):
        saved(account, "/api/funnels", FUNNEL, name=f"Funnel {number}")
    signed_in.goto("/funnels")
    links = signed_in.locator("tbody a[data-in-zone]")
    expect(links).to_have_count(3)
    for link in links.all():
        expect(link).to_have_attribute(
            "href", re.compile(r"^[^?]*\?period=30d&timezone=Europe%2FBerlin$")
        )


def test_an_empty_list_leads_to_the_builder(signed_in):
    signed_in.goto("/funnels")
    expect(signed_in.get_by_role("heading", name="No funnels yet")).to_be_visible()
    assert_accessible(signed_in)
    signed_in.get_by_role("link", name="Build a funnel").click()
    expect(signed_in).to_have_url(re.compile("/funnels/new$"))


def test_a_funnel_nobody_entered_has_a_dash_for_its_rate(signed_in, account):
    saved(account, "/api/funnels", FUNNEL)
    signed_in.goto("/funnels")
    row = signed_in.get_by_role("row", name=re.compile("Checkout"))
    expect(row).to_contain_text("No entries")
    expect(row.get_by_role("cell").nth(1)).to_have_text("0")
    expect(row.get_by_role("cell").nth(2)).to_have_text("–")


@pytest.mark.full("searched and paged like the list of links")
def test_it_is_searched_by_name_and_paged(signed_in, account):
    for number in range(21):
        saved(account, "/api/funnels", FUNNEL, name=f"Funnel {number}")
    saved(account, "/api/funnels", FUNNEL, name="100%_sure")
    signed_in.goto("/funnels")
    rows = signed_in.locator("tbody tr")
    expect(rows).to_have_count(20)
    signed_in.get_by_role("link", name="Next").click()
    expect(rows).to_have_count(2)
    signed_in.get_by_label("Search by name").fill("%_SURE")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("100%_sure")
    expect(signed_in).to_have_url(re.compile("search=%25_SURE"))
    signed_in.get_by_label("Search by name").fill("nothing like it")
    expect(signed_in.get_by_role("heading", name="No matching funnels")).to_be_visible()


def test_a_funnel_is_copied_and_deleted(signed_in, account):
    saved(account, "/api/funnels", FUNNEL)
    signed_in.goto("/funnels")
    signed_in.get_by_role("link", name="Duplicate Checkout").click()
    expect(signed_in.get_by_label("Name", exact=True)).to_have_value("Copy of Checkout")
    expect(signed_in.get_by_role("group", name="Step 2").get_by_label("Value")).to_have_value(
        "paid"
    )
    signed_in.goto("/funnels")
    signed_in.get_by_role("button", name="Delete Checkout").click()
    confirm(signed_in, "Delete", "Delete this funnel?")
    expect(signed_in.get_by_role("heading", name="No funnels yet")).to_be_visible()
    assert account.client.get("/api/funnels").json()["total"] == 0


def test_a_goal_is_made_changed_and_deleted(signed_in, account):
    signed_in.goto("/goals")
    signed_in.get_by_role("link", name="Create a goal").click()
    signed_in.get_by_label("Name").fill("Paid")
    signed_in.get_by_label("Type").select_option("Transaction")
    signed_in.get_by_label("Value").fill("purchase")
    signed_in.get_by_role("button", name="Add a filter").click()
    signed_in.get_by_label("Property").fill("plan")
    signed_in.locator(".filter-inputs").get_by_label("Value").fill("pro")
    signed_in.get_by_role("button", name="Save goal").click()
    expect(signed_in.get_by_role("cell", name="Paid", exact=True)).to_be_visible()
    [goal] = account.client.get("/api/goals").json()["data"]
    filters = [{"property": "plan", "operator": "equals", "value": "pro"}]
    assert goal["match"] == {"type": "Transaction", "value": "purchase", "filters": filters}

    signed_in.get_by_role("link", name="Paid").click()
    signed_in.get_by_role("button", name="Remove this filter").click()
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(signed_in.get_by_role("cell", name="Paid", exact=True)).to_be_visible()
    assert account.client.get("/api/goals").json()["data"][0]["match"]["filters"] == []
    signed_in.get_by_role("button", name="Delete Paid").click()
    confirm(signed_in, "Delete", "Delete this goal?")
    expect(signed_in.get_by_role("heading", name="No goals yet")).to_be_visible()


def test_a_goal_with_the_name_of_another_has_the_error_at_its_name(signed_in, account, watch):
    saved(account, "/api/goals", GOAL)
    signed_in.goto("/goals/new")
    name = signed_in.get_by_label("Name")
    expect(name).to_be_focused()
    name.fill("Paid")
    signed_in.get_by_label("Value").fill("paid")
    signed_in.get_by_role("button", name="Save goal").click()
    expect(signed_in.locator("#goal .actions")).to_contain_text(
        "Not sent: correct the marked field."
    )
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_be_focused()
    expect(signed_in.locator("#goal [data-field=name] .fault")).to_be_visible()
    expect(signed_in.locator("#goal .form-faults")).to_be_hidden()
    watch.allow("409")


def test_a_goal_in_use_lists_its_funnels_and_warns_that_a_change_recalculates(signed_in, account):
    goal = saved(account, "/api/goals", GOAL)
    steps = [FUNNEL["steps"][0], {"type": "Goal", "value": "Paid"}]
    saved(account, "/api/funnels", FUNNEL, steps=steps)
    signed_in.goto("/goals")
    expect(signed_in.get_by_role("cell", name="Checkout")).to_be_visible()
    signed_in.get_by_role("button", name="Delete Paid").click()
    expect(signed_in.get_by_role("dialog", name="This goal is in use")).to_contain_text("Checkout")
    signed_in.goto(f"/goals/{goal['id']}/edit")
    notice = signed_in.get_by_text("Saving recalculates retained history.")
    expect(notice).to_be_hidden()
    signed_in.get_by_label("Value").fill("paid_in_full")
    expect(notice).to_be_visible()
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(signed_in).to_have_url(re.compile("/goals$"))
    assert account.client.get("/api/goals").json()["data"][0]["revision"] == 2


@pytest.mark.full("sorted like the list of links")
def test_funnels_are_sorted_by_name_and_by_their_last_change(signed_in, account):
    ids = {
        name: saved(account, "/api/funnels", FUNNEL, name=name)["id"] for name in ("b", "A", "c")
    }
    account.client.put(f"/api/funnels/{ids['b']}", json=FUNNEL | {"name": "b2"}).raise_for_status()
    signed_in.goto("/funnels")
    names = signed_in.locator("td.main a")
    expect(names).to_have_text(["c", "A", "b2"])
    signed_in.get_by_role("link", name="Name").click()
    expect(names).to_have_text(["A", "b2", "c"])
    expect(signed_in.get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "ascending"
    )
    signed_in.get_by_label("Search by name").fill("b")
    expect(names).to_have_text(["b2"])
    signed_in.get_by_label("Search by name").fill("")
    expect(names).to_have_count(3)
    signed_in.get_by_role("link", name="Last changed").click()
    expect(names).to_have_text(["b2", "c", "A"])
    assert_accessible(signed_in)


def test_funnels_move_between_folders_and_closed_folders_stay_closed(signed_in, account):
    page, first = signed_in, saved(account, "/api/funnels", FUNNEL)
    saved(account, "/api/funnels", FUNNEL, name="Onboarding")
    page.goto("/funnels")
    page.get_by_role("button", name="Move Checkout").click()
    dialog = page.get_by_role("dialog", name="Move this funnel")
    dialog.get_by_label("Folder").fill("Shop")
    assert_accessible(page)
    dialog.get_by_role("button", name="Move").click()
    folders = page.get_by_role("navigation", name="Folders")
    expect(folders).to_contain_text(re.compile(r"All\s*2\s*Shop\s*1\s*No folder\s*1"))
    shop = page.get_by_role("button", name="Shop", exact=True)
    expect(shop).to_have_attribute("aria-expanded", "true")
    assert_accessible(page)

    row = page.get_by_role("row", name=re.compile("Checkout"))
    shop.focus()
    page.keyboard.press("Enter")
    expect(row).to_be_hidden()
    page.reload()
    expect(shop).to_have_attribute("aria-expanded", "false")
    expect(row).to_be_hidden()
    expect(page.get_by_role("row", name=re.compile("Onboarding"))).to_be_visible()
    shop.click()
    expect(row).to_be_visible()

    folders.get_by_role("link", name="No folder").click()
    expect(page).to_have_url(re.compile(r"/funnels\?folder=$"))
    expect(row).to_be_hidden()
    page.goto(f"/funnels/{first['id']}")
    expect(page.get_by_role("link", name="Shop")).to_have_attribute("href", "/funnels?folder=Shop")
    page.get_by_label("More").click()
    page.get_by_role("button", name="Move", exact=True).click()
    dialog.get_by_label("Folder").fill("")
    dialog.get_by_role("button", name="Move").click()
    expect(page.get_by_role("main").get_by_role("link", name="Funnels")).to_be_visible()
    assert "folder" not in account.client.get(f"/api/funnels/{first['id']}").json()
