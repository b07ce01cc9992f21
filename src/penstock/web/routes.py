"""The pages of the API's documentation, and their one stylesheet."""

import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from litestar import Request, Response, get
from litestar.response import Redirect
from markupsafe import Markup, escape

from penstock import __version__
from penstock.http.openapi import openapi_document_of
from penstock.web.codes import FAULTS, PROBLEMS, WARNINGS
from penstock.web.reference import reference


def _breakable(path: str) -> Markup:
    """A long path breaks on a phone after a slash, not inside a word."""
    return Markup(str(escape(path)).replace("/", "/<wbr>"))


def _coded(text: str) -> Markup:
    """`this` in a docstring as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_pages = Environment(
    loader=PackageLoader("penstock.web"), autoescape=select_autoescape(), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_pages.globals["version"] = __version__
_pages.filters.update(breakable=_breakable, coded=_coded)

_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def _page(name: str, **content: Any) -> Response[bytes]:
    return Response(_pages.get_template(name).render(content).encode(), media_type="text/html", headers=_SAFE)


@get("/api/docs", sync_to_thread=True)
def docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _page("docs.html", reference=reference(openapi_document_of(request.app)))


@get("/api/docs/errors", sync_to_thread=True)
def errors() -> Response[bytes]:
    return _page("errors.html", problems=PROBLEMS, faults=FAULTS, warnings=WARNINGS)


@get("/api/docs/docs.css", sync_to_thread=True)
def stylesheet() -> Response[bytes]:
    return Response(files("penstock.web").joinpath("static/docs.css").read_bytes(), media_type="text/css", headers=_SAFE)


@get("/", sync_to_thread=False)
def front() -> Redirect:
    """The address that the start banner names leads to something to read."""
    return Redirect("/api/docs", status_code=302)


ROUTES = [front, docs, errors, stylesheet]
