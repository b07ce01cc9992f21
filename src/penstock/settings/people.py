"""Settings for accounts, emails and single sign-on."""

from email.utils import parseaddr
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from penstock.base.service_urls import is_provider_url
from penstock.settings.group import SettingGroup, rule

SMTP_PORTS = {"smtp": 587, "smtps": 465, "smtp+insecure": 25}
"""Default port for each URL scheme of the mail server."""


class AccountSettings(SettingGroup):
    """Sign-up and sessions."""

    title = "Accounts"

    signup_open: Annotated[
        bool,
        Field(
            description="Whether anyone may sign up without an invitation once an account exists."
        ),
    ] = False
    session_days: Annotated[
        int, Field(ge=1, description="Days after which an unused session ends.")
    ] = 30


class MailSettings(SettingGroup):
    """The server that sends emails."""

    title = "Email"

    smtp_url: Annotated[
        SecretStr | None,
        Field(
            description="Mail server, `smtp://user:password@host:587` (with STARTTLS) or "
            "`smtps://`; `smtp+insecure://` does not encrypt. Default: no email is sent."
        ),
        rule(
            lambda url: _is_smtp_url(url.get_secret_value()),
            "not_an_smtp_url",
            "Must be a URL such as smtp://user:password@host:587.",
        ),
    ] = None
    mail_from: Annotated[
        str | None,
        Field(description="Sender of emails, such as `Penstock <penstock@example.com>`."),
        rule(
            lambda sender: "@" in parseaddr(sender)[1] and sender.isprintable(),
            "not_a_sender",
            "Must be an address such as Penstock <penstock@example.com>.",
        ),
    ] = None


class SingleSignOnSettings(SettingGroup):
    """The identity provider for single sign-on."""

    title = "Single sign-on"

    oidc_issuer: Annotated[
        str | None,
        Field(
            description="Identity provider for single sign-on (OpenID Connect): its issuer URL, "
            "which must use `https` except on this machine. Default: none."
        ),
        rule(is_provider_url, "not_an_issuer", "Must be an https URL; http only for this machine."),
    ] = None
    oidc_client_id: Annotated[
        str | None, Field(description="Client ID of Penstock at the identity provider.")
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None,
        Field(description="Client secret of Penstock at the identity provider."),
    ] = None
    oidc_name: Annotated[
        str, Field(max_length=60, description="Name in the button `Log in with ...`.")
    ] = "single sign-on"
    oidc_email_domains: Annotated[
        str | None,
        Field(
            description="Domains of email addresses that may log in by single sign-on, "
            "comma-separated; default: all."
        ),
    ] = None
    oidc_join_workspace: Annotated[
        str | None,
        Field(
            description="ID of the workspace that people without an account join by single "
            "sign-on; needs domains. Default: such people cannot log in."
        ),
    ] = None
    oidc_join_role: Annotated[
        Literal["member", "owner", "viewer"],
        Field(description="Role of people who join `PENSTOCK_OIDC_JOIN_WORKSPACE`."),
    ] = "member"


def _is_smtp_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in SMTP_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        return False
