"""Without a mail server and an identity provider: the ways that people have; settings of both."""

import pytest
from pydantic import ValidationError

from penstock.settings import Settings
from tests.answers import problem
from tests.tenant import Tenant, create_invitation, new_browser


def test_without_a_mail_server_the_answer_and_the_page_name_the_way_out(workspace: Tenant) -> None:
    browser = new_browser(workspace)
    answer = browser.post("/api/auth/password-resets", json={"email": workspace.email})
    assert problem(answer) == (409, "mail_not_set_up")
    assert "penstock reset-password" in browser.get("/reset-password").text
    assert create_invitation(workspace)["mailed"] is False


@pytest.mark.parametrize(
    "settings",
    [
        {"smtp_url": "http://secret@example.com", "mail_from": "a@example.com"},
        {"smtp_url": "smtp://", "mail_from": "a@example.com"},
        {"smtp_url": "smtp://user:secret@example.com:x", "mail_from": "a@example.com"},
        {"smtp_url": "smtp://user:secret@example.com"},
        {"smtp_url": "smtp://example.com", "mail_from": "Penstock"},
        {"smtp_url": "smtp://example.com", "mail_from": "a@example.com\nBcc: b@example.com"},
    ],
)
def test_settings_of_the_mail_server_are_checked_at_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings(**settings)


def test_without_an_identity_provider_there_is_no_button_and_no_way(workspace: Tenant) -> None:
    browser = new_browser(workspace)
    assert "/login/sso" not in browser.get("/login").text
    for path in ("/login/sso", "/login/sso/callback?code=x&state=x"):
        assert browser.get(path).status_code == 404
