"""Serves the browser client as `/t.js`. `make sdk` builds it from `sdk/js`."""

import gzip
from hashlib import sha256
from importlib.resources import files

from litestar import Response

from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.web.assets import accepts_gzip

_BODY = files("penstock.web").joinpath("client", "t.js").read_bytes()
_GZIPPED = gzip.compress(_BODY, 9, mtime=0)
_HASH = sha256(_BODY).hexdigest()[:12]
_HEADERS = {"Vary": "Accept-Encoding", "Access-Control-Allow-Origin": "*"}
"""Headers that let any page load the script. An `integrity` attribute needs CORS."""

SCRIPT_PATH = "/t.js"
"""The path to use in pages. Browsers check for changes every five minutes."""
IMMUTABLE_SCRIPT_PATH = f"/t-{_HASH}.js"
"""The path of exactly this version of the script."""


@route("GET", SCRIPT_PATH)
async def script(request: AnyRequest) -> Response[bytes]:
    """Serve the script. Returns 304 without a body if the browser already has this version."""
    headers = {"Cache-Control": "public, max-age=300", "ETag": f'W/"{_HASH}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(b"", status_code=304, headers=_HEADERS | headers)
    return _answer(request, headers)


@route("GET", IMMUTABLE_SCRIPT_PATH)
async def immutable_script(request: AnyRequest) -> Response[bytes]:
    return _answer(request, {"Cache-Control": "public, max-age=31536000, immutable"})


def _answer(request: AnyRequest, headers: dict[str, str]) -> Response[bytes]:
    headers = _HEADERS | headers
    if accepts_gzip(request):
        return Response(
            _GZIPPED, media_type="text/javascript", headers=headers | {"Content-Encoding": "gzip"}
        )
    return Response(_BODY, media_type="text/javascript", headers=headers)


ROUTES = (script, immutable_script)
