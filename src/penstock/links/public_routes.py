"""HTTP of the public side of managed links."""

from typing import Any

from litestar import HttpMethod, Request, Response, route
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.links.opening import LinkOpener, Visit
from penstock.links.pages import HEADERS, PAGE_HEADERS

AnyRequest = Request[Any, Any, Any]


@route("/l/{slug:path}", http_method=[HttpMethod.GET, HttpMethod.HEAD], status_code=200)
async def open_link(request: AnyRequest, slug: FromPath[str], opener: NamedDependency[LinkOpener]) -> Response[bytes]:
    """Takes nothing from the query: where a link leads and what it counts as is stored."""
    opened = await opener.open(_visit(request, slug))
    if opened.status == 302:
        return Response(b"", status_code=302, headers={**HEADERS, "Location": opened.location}, media_type="text/plain")
    return Response(opened.page.encode(), status_code=opened.status, headers=PAGE_HEADERS, media_type="text/html")


def _visit(request: AnyRequest, slug: str) -> Visit:
    headers = request.headers
    purpose = f"{headers.get('sec-purpose', '')} {headers.get('purpose', '')} {headers.get('x-moz', '')}".lower()
    return Visit(
        slug=slug.removeprefix("/"),
        user_agent=headers.get("user-agent", ""),
        address=request.client.host if request.client else "",
        accept_language=headers.get("accept-language", ""),
        referrer=headers.get("referer", ""),
        is_head=request.method == HttpMethod.HEAD,
        prefetched="prefetch" in purpose or "prerender" in purpose or "preview" in purpose,
    )


ROUTES = (open_link,)
