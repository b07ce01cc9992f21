"""HTTP of QR codes."""

from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from pydantic import Field

from penstock.accounts.model import Caller
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.schema import Query
from penstock.links.qr import code_file, scan_url
from penstock.links.service import LinkService
from penstock.settings import DAY_S, Settings

_MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


class CodeQuery(Query):
    """The query parameters of a QR code."""

    format: Annotated[Literal["svg", "png"], Field(description="Of the file.")] = "svg"
    scale: Annotated[int, Field(ge=1, le=40, description="Pixels of one module, the smallest square; 1 to 40.")] = 8


@get("/api/mobile/deferred-links/{link_id:str}/qr", opt=described("QR code of a managed link", query=CodeQuery, tag="managed links"))
async def read_code(
    request: Request[Any, Any, Any],
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """A picture, black on white with the quiet zone that scanners need. Its clicks are counted as scans."""
    query = read_query(request, CodeQuery)
    link = await to_thread.run_sync(links.find, caller.workspace_id, link_id)
    file = await to_thread.run_sync(partial(code_file, scan_url(link, settings.base_url), query.format, query.scale))
    headers = {
        "Content-Disposition": f'inline; filename="{link.slug}.{query.format}"',
        "Cache-Control": f"private, max-age={DAY_S}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(file, media_type=_MEDIA_TYPES[query.format], headers=headers)


ROUTES = (read_code,)
