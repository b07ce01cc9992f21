"""API keys, websites and apps, the workspace."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import confirm
from tests.browser.watching import assert_accessible
from tests.waiting import eventually


def test_a_key_is_shown_once_works_and_can_be_revoked(signed_in, account):
    signed_in.goto("/settings/api-keys")
    signed_in.get_by_role("button", name="Create a key").first.click()
    signed_in.get_by_label("Name").fill("Backend")
    permissions = signed_in.get_by_label("Permissions")
    expect(permissions).to_have_value('["ingest"]')  # the fewest, until somebody chooses more
    permissions.select_option("Read reports and lists")
    signed_in.get_by_role("button", name="Create", exact=True).click()
    shown = signed_in.get_by_role("dialog", name="Your new API key")
    key = shown.locator("#key").inner_text()
    signed_in.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.get_by_role("button", name="Copy").click()
    assert signed_in.evaluate("navigator.clipboard.readText()") == key
    assert_accessible(signed_in)
    shown.get_by_role("button", name="Done").click()
    expect(signed_in.locator("#key")).to_be_empty()
    assert key not in signed_in.content()

    bearer = {"Authorization": f"Bearer {key}"}
    account.client.cookies.clear()
    assert account.client.get("/api/settings/websites", headers=bearer).status_code == 200
    signed_in.get_by_role("button", name="Revoke Backend").click()
    confirm(signed_in, "Revoke", "Revoke this key?")
    expect(signed_in.get_by_role("row", name="Backend").get_by_text("Revoked")).to_be_visible()
    assert account.client.get("/api/settings/websites", headers=bearer).status_code == 401


def test_each_fault_stands_at_its_field_and_the_first_has_the_focus(signed_in, watch):
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_text("A mobile app").click()
    signed_in.get_by_label("Domain").fill("https://shop.example.com/")
    signed_in.get_by_label("Team ID").fill("short")
    signed_in.get_by_label("SHA-256 fingerprints").fill("AB:CD\n12")
    signed_in.get_by_role("button", name="Add website").click()
    name = signed_in.get_by_label("Name")
    expect(name).to_be_focused()
    expect(name).to_have_accessible_description("Enter a name.")
    expect(signed_in.get_by_label("Domain")).to_have_accessible_description(
        "Host name only, such as shop.example.com. "
        "Must be a host name such as shop.example.com, without scheme or path."
    )
    for label in ("Name", "Domain", "Team ID", "SHA-256 fingerprints"):
        expect(signed_in.get_by_label(label)).to_have_attribute("aria-invalid", "true")
    assert_accessible(signed_in)
    expect(signed_in.get_by_label("Team ID")).to_have_value("short")
    watch.allow("422")


def test_saving_one_form_of_a_page_asks_before_it_drops_what_another_shows(
    signed_in, account, website
):
    dialogs = []
    signed_in.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    for path, label, other in (
        (f"/settings/websites/{website}", "Page views (days)", "Save"),
        ("/settings/workspace", "Maximum time (seconds)", "Rename"),
    ):
        signed_in.goto(path)
        signed_in.get_by_label(label).fill("5")
        with signed_in.expect_navigation():
            signed_in.get_by_role("button", name=other, exact=True).first.click()
        assert dialogs.pop() == "beforeunload"


def test_an_app_is_added_changed_checked_and_deleted(signed_in, account):
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_text("A mobile app").click()
    signed_in.get_by_label("Name").fill("App")
    signed_in.get_by_label("Package").fill("com.example.shop")
    signed_in.get_by_role("button", name="Add website").click()
    expect(signed_in.get_by_text("Set androidSha256Fingerprints to")).to_be_visible()
    fingerprint = ":".join(["AB"] * 32)
    signed_in.get_by_label("SHA-256 fingerprints").fill(f"{fingerprint}\n")
    signed_in.get_by_label("Bundle ID").fill("com.example.shop")
    signed_in.get_by_label("Team ID").fill("A1B2C3D4E5")
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(signed_in.get_by_text("Saved.")).to_be_visible()
    expect(signed_in.get_by_text("Set androidSha256Fingerprints to")).to_have_count(0)
    [stored] = account.client.get("/api/settings/websites").json()["data"]
    assert stored["androidSha256Fingerprints"] == [fingerprint]
    assert (stored["iosTeamId"], stored["domain"]) == ("A1B2C3D4E5", None)
    signed_in.get_by_label("Bundle ID").fill("")
    signed_in.get_by_role("button", name="Save", exact=True).click()
    expect(signed_in.get_by_text("Set iosBundleId to")).to_be_visible()
    signed_in.get_by_role("button", name="Delete").click()
    confirm(signed_in, "Delete")
    expect(signed_in.get_by_text("No websites yet")).to_be_visible()
    assert account.client.get("/api/settings/websites").json()["total"] == 0


def test_limits_of_the_workspace_are_kept_and_cleared(signed_in, account, watch):
    signed_in.goto("/settings/workspace")
    seconds = signed_in.get_by_label("Maximum time (seconds)")
    save = signed_in.locator("form", has=seconds).get_by_role("button", name="Save")
    seconds.fill("1000")
    save.click()
    expect(signed_in.get_by_text("Must be at most 60")).to_be_visible()
    watch.allow("422")
    seconds.fill("12.5")
    save.click()
    expect(signed_in.get_by_text("Saved.")).to_be_visible()
    assert account.client.get("/api/settings/workspace").json()["queryTimeoutSeconds"] == 12.5
    signed_in.reload()
    expect(seconds).to_have_value("12.5")
    megabytes = signed_in.get_by_label("Maximum memory (MB)")
    megabytes.fill("512")
    save.click()
    expect(signed_in.get_by_text("Saved.")).to_be_visible()
    assert account.client.get("/api/settings/workspace").json()["queryMemoryBytes"] == 2**29
    signed_in.reload()
    expect(megabytes).to_have_value("512")


def test_people_are_named_by_the_trait_that_the_workspace_chose(signed_in, account):
    signed_in.goto("/settings/workspace")
    trait = signed_in.get_by_label("Show people by")
    save = signed_in.locator("form", has=trait).get_by_role("button", name="Save")
    for typed, stored in (("email", "email"), ("", None)):
        trait.fill(typed)
        save.click()
        expect(signed_in.get_by_text("Saved.").first).to_be_visible()
        eventually(
            lambda stored=stored: (
                account.client.get("/api/settings/workspace").json()["personTrait"] == stored
            )
        )
        signed_in.reload()
        expect(trait).to_have_value(typed)


def test_the_workspace_is_renamed_and_an_empty_name_is_an_error_at_its_field(
    signed_in, account, watch
):
    signed_in.goto("/settings/workspace")
    name = signed_in.get_by_label("Name", exact=True)
    expect(name).to_have_value("Acme")
    name.fill("")
    signed_in.get_by_role("button", name="Rename").click()
    expect(signed_in.locator("[data-field=name] .fault")).to_be_visible()
    watch.allow("422")
    name.fill("Acme & <b>Söhne</b>")
    signed_in.get_by_role("button", name="Rename").click()
    expect(signed_in.get_by_text("Renamed.")).to_be_visible()
    expect(signed_in.locator("p.workspace")).to_have_text("Acme & <b>Söhne</b>")
    assert account.client.get("/api/settings/workspace").json()["name"] == "Acme & <b>Söhne</b>"


def test_the_keyboard_alone_makes_a_key(signed_in):
    signed_in.goto("/settings/api-keys")
    signed_in.keyboard.press("Tab")
    expect(signed_in.get_by_role("link", name="Skip to content")).to_be_focused()
    signed_in.keyboard.press("Enter")
    for _ in range(20):
        signed_in.keyboard.press("Tab")
        if signed_in.evaluate("document.activeElement.dataset.opens === '#new-key'"):
            break
    signed_in.keyboard.press("Enter")
    for _ in range(5):
        if signed_in.evaluate("document.activeElement.name === 'name'"):
            break
        signed_in.keyboard.press("Tab")
    signed_in.keyboard.type("Backend")
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_role("dialog", name="Your new API key")).to_be_visible()
    signed_in.keyboard.press("Escape")
    expect(signed_in.get_by_role("row", name="Backend")).to_be_visible()


def test_on_a_phone_the_navigation_is_a_menu(signed_in):
    signed_in.set_viewport_size({"width": 360, "height": 740})
    signed_in.goto("/settings/websites")
    menu = signed_in.get_by_role("navigation", name="Main")
    expect(menu).to_be_hidden()
    signed_in.get_by_role("button", name="Menu").press("Enter")
    expect(menu).to_be_visible()
    assert_accessible(signed_in)
    signed_in.keyboard.press("Escape")
    expect(menu).to_be_hidden()


@pytest.mark.full("another width")
def test_an_address_in_the_audit_log_breaks_between_its_parts(signed_in, account):
    signed_in.set_viewport_size({"width": 768, "height": 1024})
    signed_in.goto("/settings/audit-log")
    address = signed_in.locator("td.main bdi").first
    expect(address).to_have_text(account.email)
    ends_of_lines = address.evaluate("""(element) => {
      const characters = [];
      for (const node of element.childNodes) {
        for (let index = 0; index < (node.data ?? "").length; index++) {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + 1);
          characters.push([node.data[index], range.getBoundingClientRect().top]);
        }
      }
      const ends = characters.filter(([, top], at) => characters[at + 1]?.[1] > top);
      return ends.map(([text]) => text);
    }""")
    assert set(ends_of_lines) <= set("-@.")


def test_the_workspace_chooses_what_may_be_shared(signed_in, account):
    signed_in.goto("/settings/workspace")
    properties = signed_in.get_by_label("Properties whose values they show")
    signed_in.get_by_label("Also units").check()
    properties.fill("plan\ncountry")
    signed_in.locator("form", has=properties).get_by_role("button", name="Save").click()
    expect(signed_in.get_by_text("Saved.")).to_be_visible()
    stored = account.client.get("/api/settings/workspace").json()
    assert (stored["sharedContents"], stored["sharedProperties"]) == ("units", ["plan", "country"])
    signed_in.reload()
    expect(signed_in.get_by_label("Also units")).to_be_checked()
    expect(properties).to_have_value("plan\ncountry")
