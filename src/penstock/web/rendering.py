"""Renders templates into responses: the Jinja environment and the headers of every page."""

import gzip
import json
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response
from markupsafe import Markup, escape

from penstock import __version__
from penstock.accounts.model import Role
from penstock.base.clock import iso, parse_time
from penstock.base.patterns import Pattern
from penstock.base.rates import percent, points, with_minus
from penstock.base.wording import utc_time
from penstock.funnels.definitions.operators import operators_by_group
from penstock.http.requests import AnyRequest
from penstock.web.assets import accepts_gzip, asset_url

_CODE = Pattern(r"`([^`]+)`")
_ID = Pattern(r"[a-z]{3}_[0-9a-z]{26}")
_ISO_TIME = Pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_FORM_PAGES = ("/new", "/edit", "/upload", "/undo", "/share", "/receipt", "/welcome")
"""Endings of the paths of pages whose form changes something."""
_MIN_GZIP_SIZE = 1000  # bytes

_is_viewer = ContextVar("is_viewer", default=False)
"""Whether the page is for a viewer. Macros cannot see the variables of the page."""


def _breakable(text: str, after: str = "/") -> Markup:
    """Mark text so that it may wrap after these characters, such as the slashes of a path, but not
    inside words or after the scheme of a URL.
    """
    breakable = str(escape(text))
    for character in after:
        breakable = breakable.replace(character, f"{character}<wbr>")
    return Markup(breakable.replace("/<wbr>/<wbr>", "//"))


def _with_ids(text: str) -> Markup:
    """Mark text so that Penstock IDs don't wrap across lines."""
    return Markup(_ID.sub(lambda match: f'<span class="id">{match[0]}</span>', str(escape(text))))


def _coded(text: str) -> Markup:
    """Replace `backticks` in a text with code elements."""
    return Markup(_CODE.sub(lambda code: f"<code>{code[1]}</code>", str(escape(text))))


def _as_data(value: Any) -> Markup:
    """Format JSON for `<script type="application/json">`. No text can close the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _sentence(text: str) -> str:
    """Capitalise the first letter of a text. Other letters stay unchanged."""
    return text[:1].upper() + text[1:]


def _with_times(text: str) -> Markup:
    """Replace ISO times in a sentence from the API with time elements, which the browser
    formats.
    """
    return Markup(_ISO_TIME.sub(lambda match: _time_element(match[0]), str(escape(text))))


def _time_element(at: str) -> str:
    text = _first_time(parse_time(at), "datetime")
    return f'<time datetime="{at}" data-style="datetime">{text}</time>'


def _first_time(at_ms: int, style: str) -> Markup:
    """Format a time for the first paint, as wide as the browser will (static/formats.js): only
    without scripts does it stay in UTC.
    """
    text = utc_time(at_ms).removesuffix(" UTC")
    if style in ("date", "day", "ago"):
        return Markup(text.partition(",")[0])
    return Markup(f"{text}<noscript> UTC</noscript>")


def _opens_form(href: str) -> bool:
    return href.partition("?")[0].endswith(_FORM_PAGES)


def _type_in_words(event_type: str) -> str:
    """Return the type of a match as people call it."""
    return "Page view" if event_type == "Pageview" else event_type


def _path_part(text: str) -> str:
    """Encode a text as one path segment, including its slashes."""
    return quote(text, safe="")


def _as_json(value: Any) -> str:
    """Format a property value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _number(value: float | None, style: str = "number") -> Markup:
    """Mark a number that the reader's browser formats (static/formats.js). None becomes a dash.

    style: number, exact (four decimals), percent (for rates), duration (for seconds) or bytes.
    """
    if value is None:
        return Markup('<span class="none">–</span>')
    text = percent(value) if style == "percent" else with_minus(f"{value:,}")
    return Markup(f'<data value="{value}" data-style="{style}">{text}</data>')


_templates = Environment(
    loader=PackageLoader("penstock.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,  # Templates are part of the program, so they never change while it runs.
)
_templates.globals.update(
    version=__version__,
    asset=asset_url,
    number_element=_number,
    is_viewer=_is_viewer.get,
    operator_groups=operators_by_group(),
)
_templates.filters.update(
    breakable=_breakable,
    coded=_coded,
    with_ids=_with_ids,
    opens_form=_opens_form,
    as_data=_as_data,
    iso=iso,
    ms=parse_time,
    first_time=_first_time,
    percent=percent,
    points=partial(points, signed=True),
    minus=with_minus,
    type_in_words=_type_in_words,
    sentence=_sentence,
)
_templates.filters.update(path_part=_path_part, as_json=_as_json, with_times=_with_times)
# It is global, because blocks that are rendered separately have no imports.
_templates.globals["ui"] = _templates.get_template("ui.html").module


def html(
    request: AnyRequest,
    template: str,
    content: Mapping[str, Any],
    *,
    block: str | None = None,
    status: int = 200,
) -> Response[bytes]:
    """Render a page, or one block of it. content: the template's variables, without `nonce`."""
    nonce, reader = secrets.token_urlsafe(16), content.get("reader")
    token = _is_viewer.set(reader is not None and reader.role is Role.VIEWER)
    try:
        text = _text(template, block, {**content, "nonce": nonce})
    finally:
        _is_viewer.reset(token)
    headers = _headers(nonce)
    body = text.encode()
    if accepts_gzip(request) and len(body) >= _MIN_GZIP_SIZE:
        body, headers["Content-Encoding"] = gzip.compress(body, 6, mtime=0), "gzip"
    return Response(body, status_code=status, media_type="text/html", headers=headers)


def _text(name: str, block: str | None, content: Mapping[str, Any]) -> str:
    template = _templates.get_template(name)
    if block is None:
        return template.render(content)
    return "".join(template.blocks[block](template.new_context(dict(content))))


def _headers(nonce: str) -> dict[str, str]:
    """Return headers that allow only our own scripts and stylesheets: no inline code, no other
    hosts.
    """
    policy = {
        "default-src": "'none'",
        "script-src": f"'nonce-{nonce}'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, HX-Target",
    }
