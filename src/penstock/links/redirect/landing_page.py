"""Landing pages: HTML without scripts, in the language of the person who opens the link."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.accounts.model import Website
from penstock.base.user_agent import Platform, UserAgent
from penstock.links.management.qr import qr_svg, scan_url
from penstock.links.model import Link
from penstock.links.redirect.languages import TEXTS
from penstock.links.redirect.targets import app_url, store_url

_STYLE = files("penstock.links.redirect").joinpath("static/landing.css").read_text("utf-8")
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

_pages = Environment(
    loader=PackageLoader("penstock.links.redirect"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.globals["style"] = Markup(_STYLE)
_landing, _missing = _pages.get_template("landing.html"), _pages.get_template("missing.html")

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "Vary": "User-Agent, Accept-Language",
}
PAGE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


class Button(NamedTuple):
    text: str
    url: str


def landing_page(
    link: Link, website: Website, user_agent: UserAgent, token: str, language: str, base_url: str
) -> str:
    """token: of the click; empty for a robot, and then no button opens the app."""
    texts = TEXTS[language]
    shows_code = user_agent.platform is Platform.DESKTOP and not user_agent.robot
    return _landing.render(
        app_name=website.name,
        language=language,
        hint=texts.scan if shows_code else texts.hint,
        address=link.short_url(base_url),
        qr_code=Markup(qr_svg(scan_url(link, base_url))) if shows_code else None,
        buttons=_buttons(link, website, user_agent, token, language, base_url),
    )


def missing_page(language: str) -> str:
    """The same page for a disabled and for an unknown link."""
    return _missing.render(language=language, texts=TEXTS[language])


def _buttons(
    link: Link, website: Website, user_agent: UserAgent, token: str, language: str, base_url: str
) -> Sequence[Button]:
    app, texts, buttons = website.app, TEXTS[language], []
    if user_agent.platform in (Platform.IOS, Platform.ANDROID):
        open_url = (
            app_url(app, user_agent.platform, link, token, link.hosted_url(base_url))
            if token
            else None
        )
        if open_url:
            buttons.append(Button(texts.open_app, open_url))
        if store := store_url(app, user_agent.platform, link, token):
            buttons.append(Button(texts.get_app, store))
    else:
        stores = (("App Store", Platform.IOS), ("Google Play", Platform.ANDROID))
        buttons += [
            Button(name, store)
            for name, platform in stores
            if (store := store_url(app, platform, link, ""))
        ]
    if link.fallback_url:
        buttons.append(Button(texts.web, link.fallback_url))
    return buttons
