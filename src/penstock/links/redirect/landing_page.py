"""Landing pages: HTML that works without scripts, in the language of the person who opens the
link.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.accounts.model import Website
from penstock.base.user_agent import Platform, UserAgent
from penstock.links.management.qr import qr_svg, scan_url
from penstock.links.model import CLICK_TOKEN_PARAM, Link
from penstock.links.redirect.languages import TEXTS
from penstock.links.redirect.targets import app_url, store_url


def _static(name: str) -> tuple[str, str]:
    """Return the text of a file that pages include, and its hash for the Content Security
    Policy.
    """
    text = files("penstock.links.redirect").joinpath(f"static/{name}").read_text("utf-8")
    return text, f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_STYLE, _STYLE_HASH = _static("landing.css")
_COPY_SCRIPT, _COPY_SCRIPT_HASH = _static("copy.js")

_pages = Environment(
    loader=PackageLoader("penstock.links.redirect"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.globals.update(style=Markup(_STYLE), copy_script=Markup(_COPY_SCRIPT))

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "Vary": "User-Agent, Accept-Language",
}
_POLICY = (
    f"default-src 'none'; style-src {_STYLE_HASH}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
PAGE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
}
SCRIPTED_PAGE_HEADERS: Mapping[str, str] = {
    **PAGE_HEADERS,
    "Content-Security-Policy": f"{_POLICY}; script-src {_COPY_SCRIPT_HASH}",
}


class PageContext(NamedTuple):
    """Data for rendering a landing page. base_url: base URL of links.

    token: the click's token; empty for a robot, whose page does not have a button to open the app.
    web_url: target of "Continue on the web"; None to omit the button.
    """

    link: Link
    website: Website
    user_agent: UserAgent
    token: str
    language: str
    base_url: str
    web_url: str | None


class LandingPage(NamedTuple):
    html: str
    has_script: bool


class Button(NamedTuple):
    """A button. copies: URL that the button copies before it opens its target; may be empty."""

    text: str
    url: str
    copies: str = ""


def landing_page(context: PageContext) -> LandingPage:
    """Render a page with buttons for the app, its stores and the web. Computers also get a QR
    code.
    """
    link, user_agent, base_url = context.link, context.user_agent, context.base_url
    texts = TEXTS[context.language]
    buttons = list(_buttons(context))
    shows_code = user_agent.platform is Platform.DESKTOP and not user_agent.robot
    copies = any(button.copies for button in buttons)
    html = _pages.get_template("landing.html").render(
        app_name=context.website.name,
        language=context.language,
        hint=texts.scan if shows_code else texts.hint,
        address=link.short_url(base_url),
        qr_code=Markup(qr_svg(scan_url(link, base_url))) if shows_code else None,
        buttons=buttons,
        copies=texts.copies if copies else "",
    )
    return LandingPage(html, copies)


def missing_page(language: str) -> str:
    """Render the page for a disabled or unknown link."""
    return _pages.get_template("missing.html").render(language=language, texts=TEXTS[language])


def _buttons(context: PageContext) -> Iterator[Button]:
    link, app, texts = context.link, context.website.app, TEXTS[context.language]
    if context.user_agent.platform in (Platform.IOS, Platform.ANDROID):
        yield from _phone_buttons(context)
    else:
        for name, platform in (("App Store", Platform.IOS), ("Google Play", Platform.ANDROID)):
            if store := store_url(app, platform, link, ""):
                yield Button(name, store)
    if context.web_url:
        yield Button(texts.web, context.web_url)


def _phone_buttons(context: PageContext) -> Iterator[Button]:
    """Yield buttons for the phone's store, and for the app if the click has a token."""
    link, token, platform = context.link, context.token, context.user_agent.platform
    app, texts = context.website.app, TEXTS[context.language]
    hosted_url = link.hosted_url(context.base_url)
    if token and (open_url := app_url(app, platform, link, token, hosted_url, context.web_url)):
        yield Button(texts.open_app, open_url)
    if store := store_url(app, platform, link, token):
        copies = platform is Platform.IOS and app.ios_clipboard_matching and token
        url = f"{link.short_url(context.base_url)}?{CLICK_TOKEN_PARAM}={token}" if copies else ""
        yield Button(texts.get_app, store, url)
