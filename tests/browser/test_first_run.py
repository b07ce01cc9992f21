"""From a fresh service to its first event."""

import os
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import patient, serve_html, sign_up
from tests.browser.watching import assert_accessible
from tests.other_programs import run_program
from tests.records import new_key
from tests.serving import Served

ROOT = Path(__file__).parents[2]


def test_an_account_a_website_a_key_and_the_first_event_shows_by_itself(service, page, watch):
    page.goto("/")
    expect(page).to_have_url(f"{service.url}/signup")
    sign_up(page)

    expect(page.get_by_role("heading", name="What would you like to measure?")).to_be_visible()
    page.get_by_label("Name").fill("Shop")
    page.get_by_role("button", name="Add website").click()

    expect(page.get_by_role("heading", name="Waiting for the first event")).to_be_visible()
    page.get_by_role("link", name="Import my history").click()
    expect(page.get_by_role("heading", level=1, name="Imports")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Create a key and show the curl command").click()
    line = page.locator("#curl")
    expect(line).to_contain_text("Bearer psk_")
    assert '"eventId"' in run_program(["bash", "-c", line.inner_text()], may_warn=True)
    [website], [key] = (
        page.request.get(f"{service.url}/api/settings/{name}").json()["data"]
        for name in ("websites", "api-keys")
    )
    assert (key["scopes"], key["websiteId"]) == (["ingest"], website["id"])

    expect(page.get_by_text("The first event has arrived")).to_be_visible()
    expect(page.locator("#arrival")).to_contain_text("signed_up")
    page.get_by_role("link", name="Build a funnel").click()
    expect(page.get_by_role("heading", name="New funnel")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_role("heading", level=1, name="Funnels")).to_be_visible()
    page.get_by_role("link", name="Connect", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Connect Shop")).to_be_visible()


def test_another_website_is_connected_next(signed_in, website, account):
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_label("Name").fill("Blog")
    signed_in.get_by_role("button", name="Add website").click()
    heading = signed_in.get_by_role("heading", level=1)
    expect(heading).to_have_text("Send the first event from Blog")
    signed_in.get_by_label("Website or app").select_option("Shop")
    expect(heading).to_have_text("Send the first event from Shop")


def test_the_snippet_sends_a_page_view_and_events(website, signed_in, browser):
    signed_in.goto(f"/welcome/{website}")
    snippet = signed_in.locator("#snippet").inner_text()

    visited = patient(browser.new_context()).new_page()
    serve_html(visited, "http://shop.localhost/**", f"<html><head>{snippet}</head></html>")
    visited.goto("http://shop.localhost/cart")
    visited.evaluate(signed_in.locator("#snippet-event").inner_text())

    arrival = signed_in.locator("#arrival")
    expect(arrival).to_contain_text("/cart")
    signed_in.reload()
    expect(arrival).to_contain_text("signed_up")
    visited.context.close()


def test_the_snippets_for_backends_send_an_event(account, website, signed_in):
    """As they are on the page of a website; the key comes from the environment."""
    key = new_key(account.client)
    signed_in.goto(f"/welcome/{website}")
    node = shutil.which("node", path=f"{os.environ['PATH']}:{ROOT / '.venv/bin'}")
    programs = {
        "#snippet-python": [sys.executable, "-c"],
        "#snippet-node": [node, "--input-type=module", "-e"],
    }
    for snippet, program in programs.items():
        code = signed_in.locator(snippet).text_content().replace("order_paid", snippet)
        run_program([*program, code], environment={**os.environ, "PENSTOCK_API_KEY": key})
        signed_in.reload()
        expect(signed_in.locator("#arrival")).to_contain_text(snippet)


def test_the_set_up_has_a_tab_for_each_kind_of_sender(website, signed_in):
    signed_in.goto(f"/welcome/{website}")
    tabs = signed_in.get_by_role("tab")
    expect(tabs).to_have_text(["Browser", "Server", "Segment", "curl"])
    expect(signed_in.locator("#snippet-python")).to_be_hidden()
    tabs.nth(0).press("ArrowRight")
    expect(tabs.nth(1)).to_be_focused()
    expect(signed_in.locator("#snippet-python")).to_be_visible()
    expect(signed_in.locator("#snippet")).to_be_hidden()
    expect(signed_in.get_by_role("main")).not_to_contain_text("checkout of Penstock")
    signed_in.get_by_role("tab", name="curl").click()
    command = ["bash", "-c", signed_in.locator("#snippet-http").inner_text()]
    run_program(command, may_warn=True)
    expect(signed_in.locator("#arrival")).to_contain_text("signed_up")
    assert_accessible(signed_in)


def test_from_another_machine_the_first_account_takes_the_setup_token(
    starts_service, tmp_path, page
):
    with Served(tmp_path / "remote", "--host", "0.0.0.0") as service:
        url = service.url.replace("0.0.0.0", "127.0.0.1")
        token = re.search(r"X-Setup-Token: (\S+?)'", service.output())[1]
        page.set_extra_http_headers({"X-Forwarded-For": "192.0.2.1"})
        page.goto(f"{url}/signup")
        sign_up(page)
        expect(page.get_by_role("alert")).to_contain_text("setup token")
        page.get_by_label("Setup token").fill(token)
        page.get_by_role("button", name="Create account").click()
        expect(page).to_have_url(f"{url}/welcome")
