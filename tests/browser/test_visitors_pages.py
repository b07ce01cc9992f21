"""Finding visitors, and everything about one."""

import pytest
from playwright.sync_api import expect

from tests.browser.watching import assert_accessible


@pytest.fixture
def website(account) -> str:
    return account.client.post(
        "/api/settings/websites", json={"name": "Shop", "kind": "web"}
    ).json()["id"]


def seen(account, website, visitor, name="seen", **more):
    item = {"websiteId": website, "type": "event", "name": name, "visitorId": visitor, **more}
    assert account.client.post("/api/track", json=item).status_code == 202


def merged(account, website):
    """`phone` and `laptop`, both of the user u-1; the ID that both have now."""
    for visitor in ("phone", "laptop"):
        seen(account, website, visitor, f"on_{visitor}")
        identity = {
            "websiteId": website,
            "visitorId": visitor,
            "userId": "u-1",
            "traits": {"plan": "pro"},
        }
        account.client.post("/api/identify", json=identity).raise_for_status()
    return account.client.get("/api/visitors", params={"search": "u-1"}).json()["data"][0][
        "visitorId"
    ]


@pytest.mark.parametrize("searched", ["u-1", "phone", "laptop"])
def test_a_visitor_is_found_by_any_of_its_ids(signed_in, account, website, watch, searched):
    canonical_id = merged(account, website)
    seen(account, website, "somebody")
    signed_in.goto("/visitors")
    expect(signed_in.locator("td.main")).to_have_text(["somebody", canonical_id])
    signed_in.get_by_label("Visitor ID or user ID (complete)").fill(searched)
    expect(signed_in.locator("td.main")).to_have_text([canonical_id])
    signed_in.get_by_role("link", name=canonical_id).press("Enter")
    expect(signed_in.get_by_role("heading", level=1, name="u-1")).to_be_visible()
    expect(signed_in.locator(".event-row strong")).to_have_text(["on_laptop", "on_phone"])
    expect(signed_in.locator(".merges li")).to_have_count(1)
    expect(signed_in.get_by_text("plan")).to_be_visible()
    assert_accessible(signed_in)


def test_an_unknown_visitor_has_a_message(signed_in, account, website, watch):
    signed_in.goto("/visitors?search=nobody")
    expect(signed_in.get_by_role("heading", name="No visitor with this ID")).to_be_visible()
    signed_in.goto("/visitors/nobody")
    expect(signed_in.get_by_role("heading", name="Page not found")).to_be_visible()
    watch.allow("404")


def test_an_id_of_several_visitors_leads_to_the_list_of_them(signed_in, account, website, watch):
    other = account.client.post(
        "/api/settings/websites", json={"name": "Blog", "kind": "web"}
    ).json()["id"]
    seen(account, website, "ann", "in_shop")
    seen(account, other, "ann", "in_blog")
    signed_in.goto("/visitors/ann")
    expect(signed_in.locator("td.main")).to_have_count(2)
    signed_in.get_by_role("row", name="Blog").get_by_role("link").click()
    expect(signed_in.locator(".event-row strong")).to_have_text(["in_blog"])


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
