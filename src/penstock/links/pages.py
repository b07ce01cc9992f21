"""Landing pages: HTML alone, without a script, in the language of whoever opens the link."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.accounts.model import Website
from penstock.links.agents import Agent, Platform
from penstock.links.languages import TEXTS
from penstock.links.model import Link
from penstock.links.qr import inline_code, scan_url
from penstock.links.targets import app_url, store_url

_STYLE = files("penstock.links").joinpath("static/landing.css").read_text("utf-8")
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

_pages = Environment(
    loader=PackageLoader("penstock.links"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_pages.globals["style"] = Markup(_STYLE)
_landing, _missing = _pages.get_template("landing.html"), _pages.get_template("missing.html")

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "Vary": "User-Agent, Accept-Language",
    "X-Content-Type-Options": "nosniff",
}
PAGE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


class Button(NamedTuple):
    text: str
    url: str


def landing_page(link: Link, website: Website, agent: Agent, token: str, language: str, base_url: str) -> str:
    """token: of the click; empty where it is none, and then nothing on the page opens the app."""
    texts = TEXTS[language]
    by_scan = agent.platform is Platform.DESKTOP and not agent.robot
    return _landing.render(
        app_name=website.name,
        language=language,
        hint=texts.scan if by_scan else texts.hint,
        address=f"{base_url}/l/{link.slug}",
        qr_code=Markup(inline_code(scan_url(link, base_url))) if by_scan else None,
        buttons=_buttons(link, website, agent, token, language, base_url),
    )


def missing_page(language: str) -> str:
    """One page for a link that is disabled and for one that never was."""
    return _missing.render(language=language, texts=TEXTS[language])


def _buttons(link: Link, website: Website, agent: Agent, token: str, language: str, base_url: str) -> Sequence[Button]:
    app, texts, buttons = website.app, TEXTS[language], []
    if agent.platform in (Platform.IOS, Platform.ANDROID):
        into_app = app_url(app, agent.platform, link, token, link.hosted_url(base_url)) if token else None
        if into_app:
            buttons.append(Button(texts.open_app, into_app))
        if store := store_url(app, agent.platform, link, token):
            buttons.append(Button(texts.get_app, store))
    else:
        stores = (("App Store", Platform.IOS), ("Google Play", Platform.ANDROID))
        buttons += [Button(name, store) for name, platform in stores if (store := store_url(app, platform, link, ""))]
    if link.fallback_url:
        buttons.append(Button(texts.web, link.fallback_url))
    return buttons
