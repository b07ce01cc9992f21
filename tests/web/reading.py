"""Pages of the dashboard and their parts, as HTML and as text."""

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.tenant import Tenant


def html_of(tenant: Tenant, path: str, part: str | None = None, **query: Any) -> str:
    """Return a page, or the part of it that loads into the element with this ID."""
    headers = {"HX-Request": "true", "HX-Target": part} if part else {}
    address = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
    answer = tenant.browser.get(address, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def without_tags(html: str) -> str:
    """Return the text of HTML, with one space between words."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def text_of(tenant: Tenant, path: str, part: str | None = None, **query: Any) -> str:
    return without_tags(html_of(tenant, path, part, **query))


def link_of(html: str, text: str) -> str:
    """Return the address of the first link with this text."""
    return next(
        unescape(href)
        for href, content in re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
        if text == without_tags(content)
    )


def query_of(address: str) -> dict[str, str]:
    """Return the first value of each parameter of an address in HTML."""
    query = parse_qs(urlsplit(unescape(address)).query)
    return {name: values[0] for name, values in query.items()}


def units_of(html: str) -> list[str]:
    """Return the units of a list."""
    return re.findall(r'<td class="main">\s*<a [^>]*><bdi>(.*?)</bdi>', html)
