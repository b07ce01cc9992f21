"""From a template to an answer: one Jinja environment, one set of headers, for every page."""

import gzip
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Response
from markupsafe import Markup, escape

from penstock import __version__
from penstock.base.clock import iso, parse_time
from penstock.web.assets import asset_url, takes_gzip

_LEAST_TO_COMPRESS = 1000  # bytes


def _breakable(path: str) -> Markup:
    """A long path breaks on a phone after a slash, not inside a word."""
    return Markup(str(escape(path)).replace("/", "/<wbr>"))


def _coded(text: str) -> Markup:
    """`this` in a text as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _as_data(value: Any) -> Markup:
    """A value as JSON for `<script type="application/json">`, in which no text can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _path_part(text: str) -> str:
    """A text as one part of a path, its slashes encoded as well."""
    return quote(text, safe="")


def _as_written(value: Any) -> str:
    """A property's value as it was sent, in JSON."""
    return json.dumps(value, ensure_ascii=False)


def _moment(at_ms: int) -> str:
    """A time for readers without our modules, as `3 Mar 2025, 10:00 UTC`."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


_templates = Environment(
    loader=PackageLoader("penstock.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_templates.globals.update(version=__version__, asset=asset_url)
_templates.filters.update(breakable=_breakable, coded=_coded, as_data=_as_data, iso=iso, ms=parse_time, moment=_moment)
_templates.filters.update(path_part=_path_part, as_written=_as_written)
# Global, so that blocks that are rendered by themselves have them, too.
_templates.globals["ui"] = _templates.get_template("ui.html").module


def html(
    request: Request[Any, Any, Any], template: str, content: Mapping[str, Any], *, block: str | None = None, status: int = 200
) -> Response[bytes]:
    """A page, or one block of it. content: what the template needs beside `nonce`."""
    nonce = secrets.token_urlsafe(16)
    text = _text(template, block, {**content, "nonce": nonce})
    headers = _headers(nonce)
    body = text.encode()
    if takes_gzip(request) and len(body) >= _LEAST_TO_COMPRESS:
        body, headers["Content-Encoding"] = gzip.compress(body, 6, mtime=0), "gzip"
    return Response(body, status_code=status, media_type="text/html", headers=headers)


def _text(name: str, block: str | None, content: Mapping[str, Any]) -> str:
    template = _templates.get_template(name)
    if block is None:
        return template.render(content)
    return "".join(template.blocks[block](template.new_context(dict(content))))


def _headers(nonce: str) -> dict[str, str]:
    """Scripts and styles are files of ours that carry the nonce; nothing runs that stands in the page, and nothing is asked of others."""
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
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, HX-Target",
    }
