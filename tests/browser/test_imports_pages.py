"""Imports and deletions in the browser."""

import base64
import gzip
import re

import pytest
from playwright.sync_api import expect

from tests import records
from tests.browser.conftest import confirm
from tests.browser.watching import assert_accessible
from tests.cases import cases, full_except
from tests.events.imports.exported import FILES, GA4, PostHog, parquet
from tests.records import new_website, track
from tests.waiting import eventually


def line(**more):
    return {
        "type": "event",
        "name": "bought",
        "timestamp": "2024-05-01T10:00:00Z",
        "userId": "u-1",
        **more,
    }


def ndjson(*lines):
    return records.ndjson(lines)


def open_dialog(page):
    page.goto("/imports")
    page.get_by_role("button", name="Import a file").press("Enter")


def choose(page, content, name="past.ndjson"):
    """Choose a file in the dialog."""
    open_dialog(page)
    page.get_by_label("File", exact=True).set_input_files(
        {"name": name, "mimeType": "application/x-ndjson", "buffer": content}
    )


def check(page, content, name="past.ndjson"):
    """Send a file for its dry run."""
    choose(page, content, name)
    page.get_by_role("button", name="Check the file").press("Enter")


def upload(page, content, name="past.ndjson"):
    """Send a file and start its import after the dry run."""
    check(page, content, name)
    page.get_by_role("button", name="Import", exact=True).press("Enter")


def number(page, label):
    return page.locator(".figures div").filter(has_text=label).locator("dd")


def expect_imported(page, figures):
    """Wait until the import is done with these figures."""
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    for label, figure in figures.items():
        expect(number(page, label)).to_have_text(figure)


def send_file(account, website, content, media="application/x-ndjson"):
    """Send a file without the page."""
    return account.client.post(
        "/api/imports",
        params={"websiteId": website},
        content=content,
        headers={"Content-Type": media},
    )


def test_a_file_is_imported_and_its_rejected_lines_are_listed(signed_in, account, website, watch):
    upload(signed_in, ndjson(line(), line(name="paid"), line(timestamp="yesterday", colour="red")))
    expect(signed_in.get_by_role("heading", level=1, name="past.ndjson")).to_be_visible()
    expect_imported(signed_in, {"Accepted": "2"})
    rejects = signed_in.get_by_role("region", name="Rejected lines")
    for field in ("timestamp", "colour"):
        expect(rejects.locator(".reasons code").filter(has_text=field)).to_be_visible()
    rejects.get_by_text("Original line").press("Enter")
    expect(rejects.locator("pre")).to_contain_text('"timestamp":"yesterday","userId":"u-1"')
    assert_accessible(signed_in)
    signed_in.get_by_role("link", name="Imports").first.click()
    expect(
        signed_in.get_by_role("row", name="past.ndjson").get_by_role("cell", name="2", exact=True)
    ).to_be_visible()


@pytest.mark.full("another format")
def test_a_csv_file_is_imported_in_the_format_that_its_name_selects(
    signed_in, account, website, watch
):
    rows = b"timestamp;name;userId\n2024-05-01T10:00:00Z;bought;u\nnever;bought;u\n"
    upload(signed_in, rows, "past.csv")
    expect_imported(signed_in, {"Accepted": "1"})


@pytest.mark.full("another format")
def test_an_export_of_another_product_is_imported_in_the_selected_format(
    signed_in, account, website, watch
):
    choose(signed_in, FILES["amplitude"](), "export.zip")
    expect(signed_in.get_by_label("Format")).to_have_value("amplitude")
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Check the file").press("Enter")
    expect(signed_in.get_by_text("Ready to import")).to_be_visible()
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Import", exact=True).press("Enter")
    expect_imported(signed_in, {"Accepted": "11", "Identify lines": "1", "Ignored lines": "1"})
    expect(signed_in.get_by_text("line names a visitor who already")).to_be_visible()
    assert_accessible(signed_in)


def test_a_file_of_another_product_may_have_a_time_zone(signed_in, account, website, watch):
    open_dialog(signed_in)
    zone = signed_in.get_by_label("Time zone")
    expect(zone).to_be_hidden()
    choose(signed_in, FILES["mixpanel"](), "export.json")
    expect(signed_in.get_by_label("Format")).to_have_value("mixpanel")
    zone.fill("Europe/Berlin")
    signed_in.get_by_role("button", name="Check the file").press("Enter")
    expect(signed_in.get_by_text("Ready to import")).to_be_visible()
    [job] = account.client.get("/api/imports").json()["data"]
    summary = account.client.get(f"/api/imports/{job['id']}/summary").json()
    assert summary["firstEventAt"] == "2024-05-01T08:00:00.000Z"


def test_a_csv_file_with_an_ambiguous_header_is_refused(signed_in, account, website, watch):
    check(signed_in, b"day,day\n2024-05-01,bought\n", "days.csv")
    expect(signed_in.get_by_label("Format")).to_have_value("csv")
    expect(signed_in.get_by_text("names a column twice")).to_be_visible()
    assert_accessible(signed_in)
    watch.allow("415")


DROP = """([name, base64]) => {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], name));
  for (const type of ["dragenter", "dragover", "drop"])
    document.querySelector("main").dispatchEvent(
      new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
}"""


def journeys():
    """Checkouts of four people in Mixpanel's shape; the file begins in the middle of one."""
    steps = ("Checkout Started", "Address Entered", "Order Paid")
    lines = [("Order Paid", "ann", "c-0", 0)]
    for number, (who, reached) in enumerate(
        [("ann", 3), ("ann", 3), ("bob", 2), ("cy", 3), ("dee", 1)], 1
    ):
        lines += [
            (step, who, f"c-{number}", 100 * number + at) for at, step in enumerate(steps[:reached])
        ]
    return ndjson(
        *(
            {
                "event": step,
                "properties": {
                    "time": 1_714_557_600 + at,
                    "distinct_id": who,
                    "$insert_id": f"i-{at}",
                    "checkout_id": checkout,
                },
            }
            for step, who, checkout, at in lines
        )
    )


def test_a_dropped_file_is_checked_imported_and_becomes_a_funnel_with_one_click(
    signed_in, account, website, watch
):
    content = journeys() + ndjson({"event": "Order Paid", "properties": {"time": "never"}})
    signed_in.goto("/imports")
    signed_in.evaluate(DROP, ["export.json", base64.b64encode(content).decode()])
    expect(signed_in.get_by_label("Format")).to_have_value("mixpanel")
    expect(signed_in.get_by_role("link", name="How to export from Mixpanel")).to_be_visible()
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Check the file").click()

    expect(signed_in.get_by_text("Ready to import")).to_be_visible()
    figures = [(name, number(signed_in, name)) for name in ("Events", "Visitors", "Rejected")]
    for (_, figure), text in zip(figures, ("13", "4", "1"), strict=True):
        expect(figure.first).to_have_text(text)
    names = signed_in.get_by_role("region", name="Event names")
    expect(names.get_by_role("row", name="Checkout Started").locator(".number")).to_have_text("5")
    reasons = signed_in.get_by_role("region", name="Lines that would be rejected")
    reasons.get_by_text("Line 14").press("Enter")
    expect(reasons.locator("pre")).to_contain_text("never")
    expect(signed_in.get_by_role("link", name="Make a funnel")).to_have_count(0)
    assert account.client.get("/api/imports").json()["data"][0]["accepted"] == 0
    assert_accessible(signed_in)

    signed_in.get_by_role("button", name="Import", exact=True).press("Enter")
    expect_imported(signed_in, {"Accepted": "13"})
    assert_accessible(signed_in)
    signed_in.get_by_role("link", name="Make a funnel of attempts by checkout_id").click()
    expect(signed_in.get_by_label("Attempt property")).to_have_value("checkout_id")
    expect(signed_in.get_by_label("Name", exact=True).first).to_have_value(
        "Checkout Started to Order Paid"
    )
    values = signed_in.locator('#builder [data-list="steps"] [data-suggests="name"]')
    assert [field.input_value() for field in values.all()] == [
        "Checkout Started",
        "Address Entered",
        "Order Paid",
    ]
    expect(signed_in.locator("#preview-days")).to_have_value("")
    assert account.client.get("/api/funnels").json()["total"] == 0
    signed_in.get_by_role("button", name="Save").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Checkout Started to Order Paid")
    expect(signed_in).to_have_url(re.compile(f"period=all&websiteId={website}"))


def test_a_table_is_imported_with_a_corrected_mapping(signed_in, account, website, watch):
    table = (
        b"when;who;what;basket\n"
        b"1714557600;7;opened;b-1\n1714557660;7;bought;b-1\n1714557700;8;opened;b-2\n"
    )
    check(signed_in, table, "events.csv")
    columns = signed_in.get_by_role("region", name="Name the columns")
    expect(columns.get_by_text("1714557660")).to_be_visible()
    expect(signed_in.get_by_text("Which column identifies the person?")).to_be_visible()
    expect(signed_in.get_by_role("button", name="Import", exact=True)).to_have_count(0)
    assert_accessible(signed_in)
    columns.get_by_label("Meaning of when").select_option("time")
    columns.get_by_label("Times are in").first.select_option("seconds")
    columns.get_by_label("Meaning of who").select_option("user")
    columns.get_by_label("Meaning of basket").select_option("attempt")
    columns.get_by_role("button", name="Check again").press("Enter")
    expect(columns.get_by_text("Choose the column with the event name")).to_be_visible()
    expect(signed_in.get_by_text("(eventName)")).to_have_count(0)
    watch.allow("422")
    columns.get_by_label("Meaning of what").select_option("event")
    columns.get_by_role("button", name="Check again").press("Enter")
    expect(number(signed_in, "Events")).to_have_text("3")
    new_values = columns.get_by_label("New values").nth(2)
    new_values.fill('{"opened": "Basket opened"}')
    columns.get_by_role("button", name="Check again").press("Enter")
    names = signed_in.get_by_role("region", name="Event names")
    expect(names.get_by_text("Basket opened")).to_be_visible()
    expect(new_values).to_have_value('{"opened": "Basket opened"}')
    columns.get_by_role("button", name="Check again").press("Enter")
    expect(names.get_by_text("Basket opened")).to_be_visible()
    expect(number(signed_in, "Visitors")).to_have_text("2")
    assert_accessible(signed_in)
    columns.get_by_label("Save this mapping as").fill("Baskets")
    columns.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(columns.get_by_text("the saved mapping Baskets")).to_be_visible()
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Import", exact=True).press("Enter")
    expect_imported(signed_in, {"Accepted": "3"})
    check(signed_in, table, "more.csv")
    expect(columns.get_by_text("the saved mapping Baskets")).to_be_visible()
    expect(number(signed_in, "Events")).to_have_text("3")


PEOPLE = b"""when;who;what;email
1714557600;7;opened;ann@example.org
1714557660;7;bought;ann@example.org
"""
"""A table whose guessed mapping imports an e-mail address as a property."""


def stored_properties(account, website):
    """Return the properties of the events of user 7, once they are stored."""
    search = {"websiteId": website, "search": "7"}
    [visitor] = eventually(
        lambda: account.client.get("/api/visitors", params=search).json()["data"]
    )
    path = f"/api/visitors/{visitor['visitorId']}/events?websiteId={website}"
    return [event["properties"] for event in account.client.get(path).json()["data"]]


def check_people(page):
    """Check the table of people, whose columns then have all that an import needs."""
    check(page, PEOPLE, "people.csv")
    columns = page.get_by_role("region", name="Name the columns")
    for column, use in (("when", "time"), ("who", "user"), ("what", "event")):
        columns.get_by_label(f"Meaning of {column}").select_option(use)
    columns.get_by_label("Times are in").first.select_option("seconds")
    columns.get_by_label("Meaning of email").select_option("property")
    columns.get_by_role("button", name="Check again").press("Enter")
    expect(number(page, "Events")).to_have_text("2")
    return columns


def test_an_import_starts_only_with_the_mapping_on_the_screen(signed_in, account, website, watch):
    columns = check_people(signed_in)
    start = signed_in.get_by_role("button", name="Import", exact=True)
    expect(start).to_be_visible()
    columns.get_by_label("Meaning of email").select_option("ignored")
    card = signed_in.get_by_role("region", name="Dry run")
    expect(card.get_by_text("You have changed the columns since this check")).to_be_visible()
    for name in ("Import", "Save"):
        expect(signed_in.get_by_role("button", name=name, exact=True)).to_have_count(0)
    assert_accessible(signed_in)
    columns.get_by_label("Meaning of email").select_option("property")
    expect(start).to_be_visible()
    columns.get_by_label("Meaning of email").select_option("ignored")
    card.get_by_role("button", name="Check again").press("Enter")
    expect(start).to_be_visible()
    expect(columns.get_by_label("Meaning of email")).to_have_value("ignored")
    start.press("Enter")
    expect_imported(signed_in, {"Accepted": "2"})
    assert stored_properties(account, website) == [{}, {}]


def test_a_start_sends_the_mapping_on_the_screen_and_another_is_refused(
    signed_in, account, website, watch
):
    columns = check_people(signed_in)
    # A browser that restores the fields of a page dispatches no events.
    columns.get_by_label("Meaning of email").evaluate("select => { select.value = 'ignored' }")
    signed_in.get_by_role("button", name="Import", exact=True).press("Enter")
    expect(signed_in.get_by_text("You have changed the columns since this check")).to_be_visible()
    watch.allow("409")
    [job] = account.client.get("/api/imports").json()["data"]
    assert job["state"] == "checked"


def test_saved_mappings_are_listed_renamed_and_deleted(signed_in, account, website, watch):
    page, path = signed_in, "/api/import-mappings"
    page.goto("/imports")
    page.get_by_role("link", name="Mappings").click()
    expect(page.get_by_text("No saved mappings")).to_be_visible()
    columns = [
        {"column": "when", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
    ]
    for name in ("Orders", "Baskets"):
        mapping = {"name": name, "mapping": {"columns": columns}}
        account.client.post(path, json=mapping).raise_for_status()
    page.reload()
    row = page.get_by_role("row", name="Baskets")
    expect(row.get_by_role("cell").nth(1)).to_have_text("when Time, who User ID, what Event name")
    expect(page.get_by_role("link", name="Imports").first).to_have_attribute("aria-current", "page")
    row.get_by_role("button", name="Rename Baskets").press("Enter")
    dialog = page.get_by_role("dialog", name="Rename this mapping")
    dialog.get_by_label("Name").fill("Orders")
    dialog.get_by_role("button", name="Rename").click()
    expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    watch.allow("409")
    assert_accessible(page)
    dialog.get_by_label("Name").fill("Carts")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_text("Mapping renamed.")).to_be_visible()
    expect(page.locator("td.main")).to_have_text(["Carts", "Orders"])
    page.get_by_role("button", name="Delete Orders").click()
    confirm(page, "Delete", "Delete this mapping?")
    expect(page.locator("td.main")).to_have_text(["Carts"])
    assert [each["name"] for each in account.client.get(path).json()["data"]] == ["Carts"]
    page.get_by_label("Search by name").fill("orders")
    expect(page.get_by_text("No matching mappings")).to_be_visible()
    assert_accessible(page)


def test_a_file_is_removed_instead_of_imported(signed_in, account, website, watch):
    check(signed_in, ndjson(line()))
    signed_in.get_by_role("button", name="Remove the file").press("Enter")
    expect(signed_in.get_by_text("The file was removed.")).to_be_visible()
    expect(
        signed_in.get_by_role("row", name="past.ndjson").get_by_text("Cancelled")
    ).to_be_visible()


def test_the_selected_format_is_checked_against_the_file(signed_in, account, website, watch):
    choose(signed_in, b'data;name\n{"a": 1};bought\n{}\n')
    expect(signed_in.get_by_label("Format")).to_have_value("csv")
    signed_in.get_by_label("Format").select_option("ndjson")
    expect(signed_in.get_by_text("This is a CSV file.")).to_be_visible()
    expect(signed_in.get_by_label("File", exact=True)).to_have_attribute("aria-invalid", "true")


@cases("name", full_except(("mixpanel", "ndjson"), ("ndjson", *FILES), "other formats"))
def test_the_format_is_chosen_by_the_content_of_a_file(signed_in, account, website, watch, name):
    content = FILES[name]() if name in FILES else ndjson(line())
    zipped = content if name == "amplitude" else gzip.compress(content)
    for sent in (content, zipped):
        choose(signed_in, sent, "export.zip" if name == "amplitude" else "export.json")
        expect(signed_in.get_by_label("Format")).to_have_value(name)
        expect(signed_in.locator("#upload-form .fault:visible")).to_have_count(0)


def test_the_parquet_of_a_product_is_chosen_by_its_columns(signed_in, account, website, watch):
    for content, name in (
        (PostHog().as_parquet(), "posthog"),
        (GA4().as_parquet(), "ga4"),
        (parquet({"event": ["paid"], "at": ["2024-05-01"]}), "parquet"),
    ):
        choose(signed_in, content, "export.parquet")
        expect(signed_in.get_by_label("Format")).to_have_value(name)


def test_an_owner_dismisses_the_gap_of_an_import(signed_in, account, website, watch):
    upload(signed_in, ndjson(line(), line(timestamp="yesterday")))
    expect(signed_in.get_by_text("Reports are marked as incomplete")).to_be_visible()
    signed_in.get_by_role("button", name="Dismiss gap").click()
    expect(signed_in.get_by_text("The gap of this import was dismissed")).to_be_visible()
    expect(signed_in.get_by_role("button", name="Dismiss gap")).to_have_count(0)
    assert_accessible(signed_in)


def test_an_import_is_undone_after_a_preview_of_what_goes(signed_in, account, website, watch):
    upload(signed_in, ndjson(line(), line(name="paid")))
    expect_imported(signed_in, {"Accepted": "2"})
    signed_in.get_by_role("link", name="Undo import").press("Enter")
    expect(signed_in.get_by_role("heading", name="Undo this import?")).to_be_visible()
    expect(signed_in.get_by_text("Everything that past.ndjson stored")).to_be_visible()
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Undo import").press("Enter")
    expect(signed_in.get_by_text("This import was undone")).to_be_visible()
    assert_accessible(signed_in)


def test_an_import_of_which_every_line_was_rejected_has_failed(signed_in, account, website, watch):
    check(signed_in, ndjson({"colour": "red"}))
    expect(signed_in.get_by_text("Nothing to import")).to_be_visible()
    expect(signed_in.get_by_role("button", name="Import", exact=True)).to_have_count(0)
    sent = send_file(account, website, ndjson({"colour": "red"}))
    signed_in.goto(f"/imports/{sent.json()['id']}")
    expect(signed_in.get_by_text("Failed", exact=True)).to_be_visible()
    expect(signed_in.get_by_text("The import failed")).to_be_visible()
    expect(signed_in.get_by_role("button", name="Dismiss gap")).to_have_count(0)
    signed_in.goto("/imports")
    expect(signed_in.locator(".badge.bad")).to_have_text("Failed")


@pytest.mark.full("a larger file")
def test_a_long_import_moves_by_itself(signed_in, account, website, watch):
    upload(signed_in, ndjson(*(line(properties={"n": n}) for n in range(4000))), "long.ndjson")
    expect_imported(signed_in, {"Accepted": "4,000"})


@pytest.mark.full("a larger file")
def test_a_file_that_begins_with_many_empty_lines_is_imported(signed_in, account, website, watch):
    upload(signed_in, b"\n" * 5000 + ndjson(line()))
    expect_imported(signed_in, {"Accepted": "1", "Empty lines": "5,000"})


def test_without_a_file_the_error_is_at_its_field(signed_in, account, website, watch):
    open_dialog(signed_in)
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Check the file").click()
    expect(signed_in.get_by_label("File", exact=True)).to_be_focused()
    expect(signed_in.get_by_text("Choose a file.")).to_be_visible()


@cases(
    ("name", "content", "message"),
    [
        ("past.json", b'[\n{"type": "event"},\n{"a": 1}\n]', "This file is one JSON array."),
        ("past.json", b'{\n  "type": "event"\n}', "JSON objects in this file span several lines."),
        ("past.txt", b"bought", "This is not NDJSON:"),
        ("past.ndjson", b"", "This file is empty."),
    ],
)
def test_a_file_in_another_format_is_refused_when_it_is_chosen(
    signed_in, account, website, watch, name, content, message
):
    open_dialog(signed_in)
    file = signed_in.get_by_label("File", exact=True)
    file.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
    expect(signed_in.get_by_text(message)).to_be_visible()
    expect(file).to_have_attribute("aria-invalid", "true")
    signed_in.get_by_role("button", name="Check the file").click()
    expect(signed_in.get_by_text(message)).to_be_visible()
    assert account.client.get("/api/imports").json()["total"] == 0


@cases("media", ["text/plain", "application/x-www-form-urlencoded", "application/gzip"])
def test_a_session_takes_no_file_that_a_form_of_another_page_could_send(account, website, media):
    assert send_file(account, website, ndjson(line()), media).status_code == 415
    assert account.client.get("/api/imports").json()["total"] == 0


def seen(account, website, visitor):
    track(account.client, website, name="seen", visitorId=visitor)


def test_a_website_is_chosen_for_a_file_if_there_are_several(signed_in, account, website, watch):
    other = new_website(account.client, "Blog")
    choose(signed_in, ndjson(line()))
    chosen = signed_in.get_by_role("dialog").get_by_label("Website or app")
    expect(chosen).to_have_value("")
    signed_in.get_by_role("button", name="Check the file").click()
    expect(chosen).to_be_focused()
    expect(chosen).to_have_accessible_description(re.compile("Choose a website or app."))
    assert_accessible(signed_in)
    chosen.select_option("Blog")
    signed_in.get_by_role("button", name="Check the file").click()
    expect(signed_in.get_by_text("Ready to import")).to_be_visible()
    assert account.client.get("/api/imports").json()["data"][0]["websiteId"] == other
    signed_in.goto(f"/imports?websiteId={website}")
    signed_in.get_by_role("button", name="Import a file").click()
    expect(chosen).to_have_value(website)


def test_a_visitor_is_deleted_after_a_preview_of_what_is_deleted(
    signed_in, account, website, watch
):
    seen(account, website, "ann")
    seen(account, website, "bob")
    signed_in.goto(f"/visitors/ann?websiteId={website}")
    signed_in.get_by_role("link", name="Delete").click()
    expect(signed_in.get_by_text("Visitor ann")).to_be_visible()
    expect(signed_in.get_by_role("definition").first).to_contain_text("1")
    assert account.client.get("/api/deletions").json()["total"] == 0
    assert_accessible(signed_in)
    signed_in.get_by_role("button", name="Delete permanently").press("Enter")
    expect(signed_in.get_by_text("Deletion started.")).to_be_visible()
    expect(signed_in.get_by_role("row", name="A visitor").get_by_text("Done")).to_be_visible()
    signed_in.goto("/visitors")
    expect(signed_in.locator("td.main")).to_have_text(["bob"])


def test_the_exports_of_a_deletion_stay_open_while_the_list_is_loaded_again(
    signed_in, account, website, watch
):
    client = account.client
    seen(account, website, "ann")
    days = {"websiteId": website, "table": "events"}
    eventually(lambda: client.get("/api/exports/days", params=days).json()["data"])
    export = client.post("/api/exports", json={"destination": "s3://backups/acme"}).json()
    client.get("/api/exports/days", params={**days, "exportId": export["id"]}).raise_for_status()
    client.post(f"/api/exports/{export['id']}/finish").raise_for_status()
    visitor = {"websiteId": website, "visitorId": "ann"}
    client.post("/api/deletions", json=visitor).raise_for_status()
    signed_in.goto("/deletions")
    destination = signed_in.get_by_text("s3://backups/acme")
    summary = signed_in.get_by_text("In 1 export")
    expect(destination).to_be_hidden()
    summary.press("Enter")
    expect(destination).to_be_visible()
    signed_in.locator("#list").evaluate("list => { list.dataset.isOld = '' }")
    signed_in.evaluate(
        """() => htmx.ajax("GET", location.pathname, {target: "#list", swap: "outerHTML"})"""
    )
    expect(signed_in.locator("#list[data-is-old]")).to_have_count(0)
    expect(destination).to_be_visible()
    expect(summary).to_be_focused()
    assert_accessible(signed_in)


def test_a_time_range_and_a_user_are_chosen_by_forms(signed_in, account, website, watch):
    signed_in.goto("/deletions/new")
    span = signed_in.locator("form").filter(
        has=signed_in.get_by_role("heading", name="A time range")
    )
    span.get_by_label("From (UTC)").fill("2024-01-01T00:00")
    span.get_by_label("To (UTC, exclusive)").fill("2023-01-01T00:00")
    span.get_by_role("button", name="Continue").click()
    expect(signed_in.get_by_text("2024-01-01 00:00 UTC")).to_be_visible()
    signed_in.get_by_role("button", name="Delete permanently").click()
    expect(signed_in.get_by_role("alert")).to_contain_text("Must be later than from")
    watch.allow("422")
    signed_in.goto("/deletions/new")
    user = signed_in.locator("form").filter(has=signed_in.get_by_role("heading", name="A user"))
    user.get_by_label("User ID").fill("u-1")
    user.get_by_label("User ID").press("Enter")
    expect(signed_in.get_by_text("No visitor has this ID right now")).to_be_visible()
    signed_in.get_by_role("button", name="Delete permanently").click()
    expect(signed_in.get_by_role("row", name="user")).to_be_visible()
    [deletion] = account.client.get("/api/deletions").json()["data"]
    assert deletion["target"] == "user"


def test_the_sample_of_the_dialog_can_be_imported_as_it_is(signed_in, account, website):
    open_dialog(signed_in)
    dialog = signed_in.get_by_role("dialog", name="Import a file")
    dialog.get_by_text("Sample file").click()
    expect(dialog.get_by_role("link", name="All fields of the format")).to_have_attribute(
        "href", "/api/docs#post-api-imports"
    )
    samples = {
        f"past.{ending}": dialog.locator(f"#sample-{ending}").inner_text()
        for ending in ("ndjson", "csv")
    }
    for (name, sample), events in zip(samples.items(), ("2", "1"), strict=True):
        upload(signed_in, sample.encode(), name)
        expect(signed_in.get_by_role("heading", level=1, name=name)).to_be_visible()
        expect_imported(signed_in, {"Accepted": events, "Rejected": "0"})
