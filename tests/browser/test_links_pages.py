"""Managed links: created, shared, disabled; their statistics, and each open with its reason."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from penstock.cli.simulate import buttons_of, evidence_of
from tests import user_agents
from tests.browser.conftest import CONTEXT
from tests.browser.watching import HeldRequests, assert_accessible
from tests.records import create, new_website
from tests.waiting import eventually

LINKS = "/api/mobile/deferred-links"
APP = {
    "name": "Acme app",
    "kind": "mobile",
    "androidPackage": "com.acme.shop",
    "customScheme": "acmeshop",
}


@pytest.fixture
def app_id(account) -> str:
    return new_website(account.client, **APP)


@pytest.fixture
def mark() -> str:
    """A part of slugs: a slug leads to one link in the installation, which tests share."""
    return uuid4().hex[:12]


@pytest.fixture
def make_link(account, app_id, mark):
    def make(slug="spring", **more):
        body = {
            "websiteId": app_id,
            "name": "Spring",
            "slug": f"{slug}-{mark}",
            "destinationPath": "/offers/42",
        } | more
        return create(account.client, LINKS, body)

    return make


def labelled(page, name):
    return page.get_by_label(name, exact=True)


def expect_totals(page, number, *labels):
    """Wait until each of these totals of a link is the number."""
    totals = page.locator("#statistics .totals")
    for label in labels:
        total = totals.locator("div", has=page.get_by_text(label, exact=True))
        expect(total.locator("dd")).to_have_text(number)


def tap_and_open(service, link, install_id, *, scan=False):
    """A phone opens the link, and the app that it installs resolves it."""
    query = {"qr": "1"} if scan else {}
    tapped = service.client.get(
        f"/l/{link['slug']}", params=query, headers={"User-Agent": user_agents.ANDROID["samsung"]}
    )
    known = {
        "websiteId": link["websiteId"],
        "installId": install_id,
        "platform": "android",
        "osVersion": "15",
        "firstOpen": True,
    }
    answer = service.client.post(
        f"{LINKS}/resolve", json=known | evidence_of(buttons_of(tapped.text), "android")
    )
    assert answer.json()["matched"], answer.text


def test_without_an_app_the_list_leads_to_adding_one_and_then_to_a_first_link(signed_in, account):
    signed_in.goto("/links")
    expect(signed_in.get_by_role("link", name="Add an app")).to_have_attribute(
        "href", "/settings/websites/new"
    )
    signed_in.goto("/links/new")
    expect(signed_in.get_by_role("link", name="Add an app")).to_be_visible()
    new_website(account.client, **APP)
    signed_in.goto("/links")
    signed_in.get_by_role("link", name="Create a link").click()
    expect(signed_in).to_have_url(re.compile("/links/new$"))


def test_a_link_is_created_by_keyboard_and_its_address_was_previewed_while_typing(
    signed_in, account, app_id, mark
):
    slug = f"spring-{mark}"
    signed_in.goto("/links/new")
    labelled(signed_in, "Name").focus()
    signed_in.keyboard.type("Frühling 2026!")
    expect(signed_in.get_by_label("Slug")).to_have_value("fruhling-2026")
    signed_in.keyboard.press("Tab")
    signed_in.keyboard.type(slug)
    signed_in.get_by_label("Destination in the app").fill("/offers/42")
    signed_in.get_by_label("Source").fill("news letter")
    preview = signed_in.locator("#preview")
    expect(preview).to_have_text(f"{account.url}/l/{slug}?lk=…&utm_source=news%20letter")
    assert_accessible(signed_in)
    signed_in.get_by_label("Source").press("Enter")
    expect(signed_in.get_by_role("heading", name="Frühling 2026!")).to_be_visible()
    [link] = account.client.get(LINKS).json()["data"]
    expected = (slug, "news letter", None)
    assert (link["slug"], link["utmSource"], link["fallbackUrl"]) == expected
    assert link["hostedUrl"] == f"{account.url}/l/{slug}?lk={link['id']}&utm_source=news%20letter"


@pytest.mark.full("another form")
def test_typing_and_clicks_before_the_modules_were_loaded_are_not_lost(
    signed_in, account, app_id, mark
):
    modules = HeldRequests(signed_in, re.compile(r"/static/.*/(forms|links)\.js$"))
    signed_in.goto("/links/new", wait_until="commit")
    labelled(signed_in, "Name").fill(f"Spring {mark}")
    signed_in.get_by_label("Destination in the app").fill("/offers/42")
    signed_in.get_by_role("button", name="Create link").click()
    modules.release()
    expect(signed_in.get_by_role("heading", name=f"Spring {mark}")).to_be_visible()
    [link] = account.client.get(LINKS).json()["data"]
    assert (link["slug"], link["destinationPath"]) == (f"spring-{mark}", "/offers/42")


def test_a_slug_is_checked_while_typing_and_by_the_server_when_it_is_sent(
    signed_in, make_link, watch
):
    taken_slug = make_link()["slug"]
    signed_in.goto("/links/new")
    slug = signed_in.get_by_label("Slug")
    rule = signed_in.locator("[data-field=slug] .fault")
    slug.press_sequentially("Spring")
    expect(rule).to_contain_text("lower-case letters")
    slug.fill("spring-")
    expect(rule).to_be_hidden()
    slug.blur()
    expect(rule).to_be_visible()
    for value, message in (("admin", "reserved"), (taken_slug, "taken")):
        slug.fill(value)
        expect(rule).to_be_hidden()
        labelled(signed_in, "Name").fill("Name")
        signed_in.get_by_role("button", name="Create link").click()
        expect(rule).to_contain_text(message)
        expect(slug).to_be_focused()
    watch.allow("422")
    watch.allow("409")


def test_each_fault_stands_at_its_field(signed_in, app_id, watch):
    signed_in.goto("/links/new")
    signed_in.get_by_label("Destination in the app").fill("//elsewhere")
    signed_in.get_by_label("Fallback URL").fill("http://localhost/x")
    signed_in.get_by_role("button", name="Create link").click()
    for label in ("Name", "Slug", "Destination in the app", "Fallback URL"):
        expect(signed_in.get_by_role("textbox", name=label)).to_have_attribute(
            "aria-invalid", "true"
        )
    expect(labelled(signed_in, "Name")).to_be_focused()
    assert_accessible(signed_in)
    watch.allow("422")


def test_a_duplicate_begins_with_everything_but_the_slug(signed_in, make_link):
    link = make_link(utmCampaign="spring", fallbackUrl="https://www.example.com/x")
    signed_in.goto(f"/links/{link['id']}")
    signed_in.get_by_role("link", name="Duplicate").click()
    expect(labelled(signed_in, "Name")).to_have_value("Spring (copy)")
    expect(signed_in.get_by_label("Slug")).to_have_value("")
    expect(signed_in.get_by_label("Fallback URL")).to_have_value("https://www.example.com/x")
    expect(signed_in.get_by_label("Campaign")).to_have_value("spring")


def test_the_address_is_copied_from_the_list_and_from_the_page(signed_in, make_link):
    link = make_link(utmSource="mail")
    signed_in.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for path, button in (
        ("/links", "Copy link Spring"),
        (f"/links/{link['id']}", "Copy link"),
    ):
        signed_in.goto(path)
        signed_in.evaluate("navigator.clipboard.writeText('')")
        signed_in.get_by_role("button", name=button).click()
        expect(signed_in.get_by_text("Copied.")).to_be_visible()
        assert signed_in.evaluate("navigator.clipboard.readText()") == link["hostedUrl"]


def test_the_qr_code_is_shown_and_downloaded(signed_in, account, make_link, tmp_path):
    link = make_link()
    signed_in.goto(f"/links/{link['id']}")
    shown = signed_in.get_by_role("img", name="QR code of")
    expect(shown).to_be_visible()
    assert shown.evaluate("image => image.complete && image.naturalWidth > 0")
    for kind, begin in (("SVG", b"<?xml"), ("PNG", b"\x89PNG")):
        with signed_in.expect_download() as downloaded:
            signed_in.get_by_role("link", name=f"Download the QR code as {kind}").click()
        assert downloaded.value.suggested_filename == f"{link['slug']}.{kind.lower()}"
        downloaded.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_bytes().startswith(begin)


def test_disabling_says_what_it_means_and_can_be_undone(signed_in, account, make_link):
    link = make_link()
    signed_in.goto(f"/links/{link['id']}")
    signed_in.get_by_role("button", name="Disable").click()
    dialog = signed_in.get_by_role("dialog", name="Disable this link?")
    expect(dialog).to_contain_text("will see a “not found” page")
    dialog.get_by_role("button", name="Disable").click()
    expect(signed_in.get_by_text("This link is disabled.")).to_be_visible()
    assert account.client.get(f"/l/{link['slug']}").status_code == 404
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Enable link").click()
    expect(signed_in.get_by_text("Link enabled.")).to_be_visible()
    assert account.client.get(f"/l/{link['slug']}").status_code == 200


def test_the_list_is_searched_and_narrowed_by_app_and_state(signed_in, account, make_link):
    other = new_website(account.client, **APP | {"name": "Other"})
    make_link("first", name="First")
    make_link("second", name="Second", websiteId=other)
    disabled = make_link("third", name="Third")
    account.client.patch(LINKS, json={"id": disabled["id"], "isActive": False})
    signed_in.goto("/links")
    rows = signed_in.locator("#list tbody tr")
    expect(rows).to_have_count(3)
    signed_in.get_by_label("Search by name, slug or tag").press_sequentially("eco")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Second")
    signed_in.goto("/links")
    signed_in.get_by_label("App").select_option(label="Other")
    expect(rows).to_have_count(1)
    signed_in.get_by_label("App").select_option(label="All apps")
    expect(rows).to_have_count(3)
    signed_in.get_by_label("State").select_option("disabled")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Third")
    signed_in.reload()
    expect(rows).to_have_count(1)
    signed_in.get_by_label("Search by name, slug or tag").fill("nothing of that kind")
    expect(signed_in.get_by_text("No matching links")).to_be_visible()


def test_a_long_list_has_pages(signed_in, make_link):
    for number in range(21):
        make_link(f"link-{number}", name=f"Link {number}")
    signed_in.goto("/links")
    expect(signed_in.get_by_text("1 to 20 of 21")).to_be_visible()
    signed_in.get_by_role("link", name="Next").click()
    expect(signed_in.get_by_role("link", name="Link 0")).to_be_visible()


def test_a_scanned_link_that_an_install_resolved_is_in_statistics_and_audit(
    signed_in, account, make_link
):
    link = make_link()
    signed_in.goto(f"/links/{link['id']}")
    expect(signed_in.get_by_text("No clicks in this period")).to_be_visible()
    expect(signed_in.get_by_text("No app opens yet")).to_be_visible()
    tap_and_open(account, link, "install-1", scan=True)
    eventually(
        lambda: account.client.get(f"{LINKS}/{link['id']}/stats").json()["totals"]["installs"] == 1
    )
    signed_in.reload()
    expect_totals(signed_in, "1", "Clicks", "Scans", "Installs")
    expect(signed_in.locator(".flow")).to_contain_text("by install referrer")
    row = signed_in.locator("#matches tbody tr")
    expect(row).to_have_count(1)
    for part in (
        "Matched",
        "By Google Play's install referrer",
        "100.0%",
        "First open",
        "Android",
    ):
        expect(row).to_contain_text(part)
    assert_accessible(signed_in)
    row.get_by_role("link").click()
    expect(signed_in).to_have_url(re.compile(rf"/visitors/.+websiteId={link['websiteId']}"))
    expect(signed_in.get_by_role("region", name="Timeline")).to_contain_text("install")


def test_the_numbers_are_those_of_the_api_and_follow_the_period(demo_page, demo):
    days = {"timezone": CONTEXT["timezone_id"]}
    stats = demo.service.client.get(f"{LINKS}/{demo.ids['link']}/stats", params=days).json()
    demo_page.goto(f"/links/{demo.ids['link']}?period=all")
    expect(demo_page.locator("#statistics .totals")).to_be_visible()
    shown = demo_page.locator("#statistics .totals data").evaluate_all(
        "all => all.map((data) => Number(data.value))"
    )
    names = ("clicks", "uniqueClicks", "installs", "conversion", "opens", "qrScans", "botHits")
    assert shown == pytest.approx([stats["totals"][name] for name in names], abs=0.00005)
    demo_page.get_by_text("View as table").click()
    rows = demo_page.get_by_role("region", name="Statistics as a table").locator("tbody tr")
    expect(rows).to_have_count(len(stats["data"]))
    clicks = rows.evaluate_all("all => all.map((row) => Number(row.querySelector('data').value))")
    assert sum(clicks) == stats["totals"]["clicks"]
    demo_page.goto(f"/links/{demo.ids['link']}?period=custom&start=2020-01-01&end=2020-01-31")
    expect(demo_page.get_by_text("No clicks in this period")).to_be_visible()
    demo_page.goto(f"/links/{demo.ids['link']}")
    demo_page.locator("#statistics").get_by_role("link", name="Week").click()
    expect(demo_page.get_by_role("heading", name="By week")).to_be_visible()


def test_the_audit_has_pages_and_says_why_there_was_no_match(demo_page, demo):
    demo_page.goto(f"/links/{demo.ids['link']}")
    matches = demo_page.locator("#matches")
    expect(matches.get_by_text("Another install has already claimed the click")).to_be_visible()
    compared = matches.locator("tr", has_text="Compared by").first
    expect(compared.locator("[data-label=Result]")).to_have_text("No match")
    expect(compared.locator("[data-label=Why]")).to_contain_text(re.compile("Compared by [A-Za-z]"))
    first = matches.locator("tbody").inner_text()
    matches.get_by_role("link", name="Next").click()
    expect(matches.get_by_text("11 to 20")).to_be_visible()
    assert matches.locator("tbody").inner_text() != first


def test_a_link_is_edited_and_the_page_shows_its_history(signed_in, account, make_link):
    record = make_link(expiresAt="2299-01-01T00:00:00.123Z", tags=["eu"], utmSource="news")
    signed_in.goto(f"/links/{record['id']}")
    signed_in.get_by_role("link", name="Edit", exact=True).click()
    labelled(signed_in, "Destination in the app").fill("/offers/77")
    signed_in.get_by_label("Source").fill("")
    signed_in.get_by_label("Tags").fill("spring\nEU")
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Save").click()
    history = signed_in.get_by_role("region", name="History")
    expect(history.get_by_text("Revision 2")).to_be_visible()
    expect(history.get_by_text("/offers/77")).to_be_visible()
    edited = account.client.get(f"{LINKS}/{record['id']}").json()
    assert edited["tags"] == ["eu", "spring"]
    assert (edited["utmSource"], edited["expiresAt"]) == (None, record["expiresAt"])
    signed_in.get_by_role("button", name="Archive").click()
    expect(signed_in.get_by_text("This link is archived.")).to_be_visible()
    signed_in.goto("/links")
    expect(signed_in.get_by_text(f"/l/{record['slug']}")).to_have_count(0)
    signed_in.goto("/links?tag=spring&state=archived")
    expect(signed_in.get_by_text(f"/l/{record['slug']}")).to_be_visible()


def test_links_are_uploaded_after_a_check_that_changes_nothing(signed_in, account, app_id, mark):
    def csv(*rows):
        lines = ["websiteId,slug,name,destinationPath", *rows]
        return {"name": "a.csv", "mimeType": "text/csv", "buffer": "\n".join(lines).encode()}

    good = f"{app_id},bulk-{mark},Bulk,/bulk"
    signed_in.goto("/links/upload")
    file, check = labelled(signed_in, "File"), signed_in.get_by_role("button", name="Check")
    file.set_input_files(csv(good, f"{app_id},Bad Slug,Bad,/bad"))
    check.click()
    faults = signed_in.get_by_role("region", name="Errors")
    expect(faults.get_by_role("row").nth(1)).to_contain_text("3slugMust be 1 to 64")
    expect(signed_in.get_by_role("button", name="Apply")).to_be_hidden()
    expect(signed_in.get_by_text("No link has changed yet.")).to_be_visible()
    expect(signed_in.get_by_text("To create")).to_be_visible()
    assert_accessible(signed_in)
    file.set_input_files(csv(good))
    check.click()
    signed_in.get_by_role("button", name="Apply").click()
    expect(signed_in).to_have_url(re.compile("/links$"))
    expect(signed_in.get_by_text("1 created, 0 updated.")).to_be_visible()
    [record] = account.client.get(LINKS, params={"search": f"bulk-{mark}"}).json()["data"]
    assert record["destinationPath"] == "/bulk"


def test_only_the_file_whose_check_is_shown_is_applied(signed_in, account, app_id, mark):
    def csv(name):
        rows = f"websiteId,slug,name,destinationPath\n{app_id},{name}-{mark},{name},/{name}\n"
        return {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": rows.encode()}

    signed_in.goto("/links/upload")
    file, check = labelled(signed_in, "File"), signed_in.get_by_role("button", name="Check")
    apply, checks = signed_in.get_by_role("button", name="Apply"), []
    signed_in.route("**/csv?dryRun=true", lambda route: checks.append(route))
    for name in ("first", "second"):
        file.set_input_files(csv(name))
        with signed_in.expect_request("**/csv?dryRun=true"):
            check.click()
    for route, is_shown in zip(checks, (False, True), strict=True):
        with signed_in.expect_response("**/csv?dryRun=true") as response:
            route.continue_()
        response.value.finished()
        signed_in.wait_for_timeout(100)
        expect(apply).to_be_visible(visible=is_shown)
    file.set_input_files(csv("third"))
    expect(apply).to_be_hidden()


def test_links_are_sorted_by_their_numbers_within_a_period(
    signed_in, account, make_link, shared_service
):
    names = ("Autumn", "Winter", "Spring")
    links = {name: make_link(slug=name.lower(), name=name) for name in names}
    for name, clicks in (("Autumn", 1), ("Winter", 3)):
        for _ in range(clicks):
            shared_service.client.get(
                f"/l/{links[name]['slug']}", headers={"User-Agent": user_agents.ANDROID["samsung"]}
            )
    totals = lambda: account.client.get(LINKS).json()["data"][1]["stats"]["clicks"]  # noqa: E731
    eventually(lambda: totals() == 3)
    signed_in.goto("/links")
    shown = signed_in.locator("td.main > a")
    expect(shown).to_have_text(["Spring", "Winter", "Autumn"])
    signed_in.get_by_role("link", name="Clicks").click()
    expect(shown).to_have_text(["Winter", "Autumn", "Spring"])
    signed_in.get_by_label("Period of the numbers").select_option("Last 7 days")
    expect(signed_in).to_have_url(re.compile("days=7"))
    expect(shown).to_have_text(["Winter", "Autumn", "Spring"])
    expect(signed_in.locator("td[data-label=Clicks]").first).to_have_text("3")
    signed_in.get_by_role("link", name="Link", exact=True).click()
    expect(shown).to_have_text(["Autumn", "Spring", "Winter"])
    assert_accessible(signed_in)
