"""Members and invitations, the ways into several workspaces, the account."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import confirm, create_account, new_email, patient, sign_in
from tests.browser.watching import assert_accessible, assert_fits
from tests.serving import http_client
from tests.tenant import PASSWORD


@pytest.fixture
def guest() -> str:
    """The address of somebody without an account."""
    return new_email("bob")


def invite(account, email, role="member"):
    answer = account.client.post("/api/settings/invitations", json={"email": email, "role": role})
    return answer.json()["url"].removeprefix(account.url)


def joined(account, email, role="member"):
    """The browser of a user who joined by an invitation."""
    browser = http_client(account.url)
    form = {
        "email": email,
        "password": PASSWORD,
        "invitation": invite(account, email, role).partition("=")[2],
    }
    browser.post("/api/auth/signup", json=form).raise_for_status()
    return browser


def logged_in(account):
    """Another browser of the account."""
    browser = http_client(account.url)
    form = {"email": account.email, "password": PASSWORD}
    browser.post("/api/auth/login", json=form).raise_for_status()
    return browser


def test_an_invitation_is_shown_once_and_its_address_makes_a_member(
    signed_in, account, guest, browser, watch
):
    signed_in.goto("/settings/members")
    signed_in.get_by_role("button", name="Invite", exact=True).click()
    email = signed_in.get_by_label("Email address").and_(signed_in.locator("#field-email"))
    email.fill(account.email)
    signed_in.get_by_role("button", name="Create invitation").click()
    expect(email).to_have_accessible_description(re.compile("already"))
    watch.allow("409")
    email.fill(guest)
    signed_in.get_by_role("button", name="Create invitation").click()
    shown = signed_in.get_by_role("dialog", name="Invitation created")
    address = shown.locator("#invitation-url").inner_text()
    assert_accessible(signed_in)
    shown.get_by_role("button", name="Done").click()
    expect(signed_in.locator("#invitation-url")).to_be_empty()
    expect(
        signed_in.get_by_role("region", name="Pending invitations").get_by_text(guest).first
    ).to_be_visible()
    assert address not in signed_in.content()

    bob = patient(browser.new_context()).new_page()
    bob.goto(address)
    expect(bob.get_by_role("heading", name="Join Acme")).to_be_visible()
    expect(bob.get_by_label("Email address")).to_have_value(guest)
    bob.get_by_label("Password").fill(PASSWORD)
    bob.keyboard.press("Enter")
    expect(bob).to_have_url(f"{account.url}/welcome")
    members = account.client.get("/api/settings/members").json()["data"]
    assert [member["role"] for member in members] == ["owner", "member"]
    bob.goto(f"{account.url}/settings/members")
    expect(bob.get_by_role("button", name="Invite", exact=True)).to_have_count(0)
    expect(bob.get_by_role("button", name="Leave the workspace")).to_be_visible()
    bob.context.close()


def test_a_withdrawn_invitation_leads_nowhere(signed_in, account, guest, watch):
    address = invite(account, guest)
    signed_in.goto("/settings/members")
    signed_in.get_by_role("button", name=f"Withdraw the invitation for {guest}").click()
    confirm(signed_in, "Withdraw")
    expect(signed_in.get_by_text("No pending invitations")).to_be_visible()
    signed_in.goto(address)
    expect(
        signed_in.get_by_role("heading", name="This invitation is no longer valid")
    ).to_be_visible()
    assert_accessible(signed_in)
    watch.allow("404")


def test_roles_change_a_member_is_removed_and_the_last_owner_stays(
    signed_in, account, guest, watch
):
    bob = joined(account, guest)
    signed_in.goto("/settings/members")
    signed_in.get_by_role("button", name=f"Change the role of {account.email}").click()
    dialog = signed_in.get_by_role("dialog", name="Change the role")
    dialog.get_by_label("Viewer").check()
    dialog.get_by_role("button", name="Change role").click()
    expect(dialog.get_by_role("alert")).to_have_text(
        "A workspace needs an owner. Make another member an owner first."
    )
    watch.allow("409")
    signed_in.keyboard.press("Escape")
    signed_in.get_by_role("button", name=f"Change the role of {guest}").click()
    dialog.get_by_label("Owner").check()
    dialog.get_by_role("button", name="Change role").click()
    expect(signed_in.get_by_role("row", name=guest).get_by_text("Owner")).to_be_visible()
    signed_in.get_by_role("button", name=f"Remove {guest}").click()
    confirm(signed_in, "Remove")
    expect(signed_in.get_by_role("row", name=guest)).to_have_count(0)
    assert bob.get("/api/auth/session").status_code == 401


def test_an_invitation_of_somebody_else_asks_to_log_out_first(account, guest, page, watch):
    address, other = invite(account, guest), joined(account, new_email("carol"))
    sign_in(page.context, account.url, other.cookies["service_session"])
    page.goto(address)
    expect(page.get_by_text(f"The invitation is for {guest}")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Log out and continue").click()
    expect(page.get_by_role("button", name="Create account and join")).to_be_visible()


def test_several_workspaces_are_switched_with_a_click(account, page, watch):
    eve = create_account(account.url, new_email("eve"), "Eve's")
    browser = eve.client
    sign_in(page.context, account.url, browser.cookies["service_session"])
    page.goto(account.url + invite(account, eve.email))
    expect(page.get_by_text("You also stay in Eve's.")).to_be_visible()
    page.get_by_role("button", name="Accept invitation").click()
    expect(page).to_have_url(f"{account.url}/welcome")
    page.goto(f"{account.url}/settings/workspace")
    assert browser.get("/api/auth/session").json()["workspace"]["name"] == "Acme"
    switcher = page.get_by_role("navigation", name="Main").locator("summary")
    switcher.press("Enter")
    assert_accessible(page)
    page.get_by_role("button", name="Eve's").press("Enter")
    expect(page).to_have_url(f"{account.url}/welcome")
    assert browser.get("/api/auth/session").json()["workspace"]["name"] == "Eve's"


def test_the_password_changes_and_ends_the_other_sessions(signed_in, account, watch):
    other = logged_in(account)
    signed_in.goto("/settings/account")
    expect(signed_in.get_by_role("button", name="End this session")).to_have_count(1)
    signed_in.get_by_label("Current password").fill("wrong horse battery")
    signed_in.get_by_label("New password").fill("a new horse battery")
    signed_in.get_by_role("button", name="Change password").click()
    expect(signed_in.get_by_label("Current password")).to_have_accessible_description(
        "This is not your current password."
    )
    watch.allow("422")
    signed_in.get_by_label("Current password").fill(PASSWORD)
    signed_in.get_by_role("button", name="Change password").click()
    expect(signed_in.get_by_text("Password changed.")).to_be_visible()
    expect(signed_in.get_by_role("button", name="End this session")).to_have_count(0)
    assert other.get("/api/auth/session").status_code == 401


def test_a_session_is_ended_from_another(signed_in, account):
    other = logged_in(account)
    signed_in.set_viewport_size({"width": 360, "height": 740})
    signed_in.goto("/settings/account")
    signed_in.get_by_role("button", name="End this session").press("Enter")
    signed_in.get_by_role("dialog").get_by_role("button", name="End session").press("Enter")
    expect(signed_in.get_by_text("Session ended.")).to_be_visible()
    expect(signed_in.get_by_role("button", name="End this session")).to_have_count(0)
    assert other.get("/api/auth/session").status_code == 401
    assert_fits(signed_in)
