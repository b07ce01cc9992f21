"""Texts that strangers chose, in mails that the operator's server sends."""

import re

import pytest
from sqlalchemy import update

from penstock.app import Services
from penstock.metadb.tables import workspaces
from penstock.settings import Settings
from tests.mail_server import MailServer
from tests.tenant import BASE_URL, Tenant, create_invitation


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    return settings.model_copy(update=mails.settings())


def shown_name(tenant: Tenant, mails: MailServer, name: str | None = None) -> str:
    """The workspace's name as the mail of an invitation shows it. name: its new name."""
    if name is not None:
        renamed = tenant.browser.patch("/api/settings/workspace", json={"name": name})
        assert renamed.status_code == 200, renamed.text
    create_invitation(tenant)
    text = mails.text()
    links = re.findall(r"https?://\S+", text)
    assert [link.startswith(f"{BASE_URL}/signup?") for link in links] == [True]
    assert text.count('"') in (0, 2)
    return (re.findall(r'"(.*)"', text) or [""])[0]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            'Acme". Your account is locked, verify now: https://evil.example',
            "Acme Your account is locked, verify now https evil example",
        ),
        ("Ann's Shop & Co (Berlin)", "Ann's Shop & Co (Berlin)"),
        ("Bücher für Café 24", "Bücher für Café 24"),
        ("東京の店", "東京の店"),
        ("www.evil.example/x?y=1#z", "www evil example x y 1 z"),
        ("mail help@evil.example", "mail help evil example"),
        (
            "evil\uff0eexample evil\u3002example evil\u2024example",
            "evil example evil example evil example",
        ),
        ("10.0.0.1 and [::1]", "10 0 0 1 and 1"),
        ("call +1 (800) 555-0199 now", "call now"),
        ("call 18005550199", "call"),
        ("“locked” «now» `x` <b>y</b>", "locked now x b y b"),
        ("://", ""),
        ("{url} {invitation.token_hash}", "url invitation token hash"),
    ],
)
def test_a_name_has_nothing_that_a_mail_client_links(
    workspace: Tenant, mails: MailServer, name: str, shown: str
) -> None:
    assert shown_name(workspace, mails, name) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("evil\u200b.\u200bexample", "evil example"), ("\u202eelpmaxe.live", "elpmaxe live")],
)
def test_a_hidden_character_of_an_old_name_is_left_out(
    workspace: Tenant, services: Services, mails: MailServer, name: str, shown: str
) -> None:
    with services.database.write() as db:
        db.execute(update(workspaces).values(name=name))
    assert shown_name(workspace, mails) == shown


def test_a_long_name_is_cut(workspace: Tenant, mails: MailServer) -> None:
    assert shown_name(workspace, mails, "word " * 40) == "word " * 11 + "word…"


def test_a_workspace_mails_twenty_invitations_a_day(workspace: Tenant, mails: MailServer) -> None:
    assert [create_invitation(workspace)["mailed"] for _ in range(21)] == [True] * 20 + [False]
