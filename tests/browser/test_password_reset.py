"""A forgotten password, from the log-in over the mail to the new password."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import create_account, log_in, new_email
from tests.browser.watching import assert_accessible
from tests.mail_server import mail_server
from tests.serving import Served


@pytest.mark.slow("starts a service that sends mails")
def test_a_forgotten_password_is_reset_by_mail(starts_service, tmp_path, page):
    with (
        mail_server() as mails,
        Served(
            tmp_path / "data",
            PENSTOCK_SMTP_URL=mails.url,
            PENSTOCK_MAIL_FROM="Penstock <penstock@example.com>",
        ) as service,
    ):
        account = create_account(service.url, new_email("ann"))
        page.goto(f"{service.url}/login")
        page.get_by_role("link", name="Forgot your password?").click()
        assert_accessible(page)
        page.get_by_label("Email address").fill(account.email)
        page.get_by_role("button", name="Send link").click()
        expect(page.get_by_text("we have sent it a link")).to_be_visible()
        [address] = re.findall(r"https?://\S+", mails.text())
        page.goto(address)
        assert_accessible(page)
        page.get_by_label("New password").fill("another horse battery")
        page.get_by_role("button", name="Change password").click()
        expect(page.get_by_text("Password changed")).to_be_visible()
        log_in(page, account.email, "another horse battery")
        expect(page).to_have_url(f"{service.url}/welcome")
        page.context.clear_cookies()
        page.goto(address)
        page.get_by_label("New password").fill("yet another battery")
        page.get_by_role("button", name="Change password").click()
        expect(page.get_by_role("alert")).to_contain_text("already been used")
        account.client.close()
