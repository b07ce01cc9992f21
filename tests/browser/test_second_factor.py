"""The second factor: set up on the account page, asked for at the log-in, turned off."""

import re
import time

import pyotp
from playwright.sync_api import expect

from tests.browser.conftest import log_in, sign_in
from tests.browser.test_session import log_in_again
from tests.browser.watching import assert_accessible, assert_fits_at
from tests.tenant import PASSWORD


def test_a_second_factor_is_set_up_asked_for_and_turned_off(signed_in, account, watch):
    signed_in.goto("/settings/account")
    section = signed_in.get_by_role("region", name="Two-factor authentication")
    section.get_by_role("button", name="Set up").click()
    setup = signed_in.get_by_role("dialog", name="Set up two-factor authentication")
    setup.get_by_label("Password").fill(PASSWORD)
    setup.get_by_role("button", name="Continue").click()
    image = setup.get_by_role("img", name="QR code")
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("image => image.naturalWidth") > 100
    totp = pyotp.TOTP(setup.locator("#second-factor-secret").inner_text())
    assert_accessible(signed_in)
    assert_fits_at(signed_in, 390, 768, 1440)
    setup.get_by_label("Code").fill("12 34")
    setup.get_by_role("button", name="Turn on").click()
    expect(setup.get_by_text("This code is wrong")).to_be_visible()
    step = time.time() // 30
    setup.get_by_label("Code").fill(totp.generate_otp(int(step)))
    setup.get_by_role("button", name="Turn on").click()
    shown = signed_in.get_by_role("dialog", name="Your recovery codes")
    codes = shown.locator("#recovery-codes").inner_text().split()
    assert len(codes) == 10
    assert_accessible(signed_in)
    shown.get_by_role("button", name="Done").click()
    expect(section.get_by_text("On since")).to_be_visible()
    expect(signed_in.locator("#recovery-codes")).to_be_empty()
    assert codes[0] not in signed_in.content()
    assert totp.secret not in signed_in.content()

    signed_in.get_by_role("button", name="Log out").click()
    log_in(signed_in, account.email)
    code = signed_in.get_by_label("Code")
    expect(code).to_be_focused()
    assert_accessible(signed_in)
    code.fill(totp.generate_otp(int(step)))  # it was used to turn the second factor on
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_role("alert").filter(has_text="has already been used")).to_be_visible()
    code.fill(codes[0])
    signed_in.keyboard.press("Enter")
    expect(signed_in).to_have_url(re.compile("/welcome"))

    signed_in.goto("/settings/members")
    expect(signed_in.get_by_role("row", name=account.email)).to_contain_text("On")
    signed_in.goto("/settings/account")
    section.get_by_role("button", name="Turn off").click()
    dialog = signed_in.get_by_role("dialog", name="Turn off two-factor authentication?")
    dialog.get_by_label("Code").fill(codes[1])
    dialog.get_by_role("button", name="Turn off").click()
    expect(section.get_by_role("button", name="Set up")).to_be_visible()
    watch.allow("401")
    watch.allow("422")


def test_a_session_that_ends_asks_for_the_code_on_the_open_page(signed_in, account, context, watch):
    enrolment = account.client.post("/api/auth/second-factor", json={"password": PASSWORD}).json()
    code = pyotp.TOTP(enrolment["secret"]).now()
    confirmed = account.client.post("/api/auth/second-factor/confirm", json={"code": code})
    recovery_code = confirmed.json()["recoveryCodes"][0]
    sign_in(context, account.url, account.client.cookies["service_session"])
    signed_in.goto("/settings/websites/new")
    signed_in.get_by_label("Name").fill("Shop")
    account.client.post("/api/auth/logout").raise_for_status()
    signed_in.get_by_role("button", name="Add website").click()
    dialog = log_in_again(signed_in)
    dialog.get_by_label("Code").fill(recovery_code)
    dialog.get_by_role("button", name="Log in").click()
    expect(signed_in.get_by_role("heading", name="Shop")).to_be_visible()
    watch.allow("401")
