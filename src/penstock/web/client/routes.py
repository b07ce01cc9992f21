"""Serves the browser client as `/t.js`. `make sdk` builds it from `sdk/js`."""

from hashlib import sha256
from importlib.resources import files

from litestar import Response

from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.web.assets import IMMUTABLE, Asset

_SCRIPT = Asset.from_body(
    "text/javascript", files("penstock.web").joinpath("client", "t.js").read_bytes()
)
_HASH = sha256(_SCRIPT.body).hexdigest()[:12]
_HEADERS = {"Access-Control-Allow-Origin": "*"}
"""Headers that let any page load the script. An `integrity` attribute needs CORS."""

SCRIPT_PATH = "/t.js"
"""The path to use in pages. Browsers check for changes every five minutes."""
IMMUTABLE_SCRIPT_PATH = f"/t-{_HASH}.js"
"""The path of exactly this version of the script."""


@route("GET", SCRIPT_PATH)
async def script(request: AnyRequest) -> Response[bytes]:
    """Serve the script. Returns 304 without a body if the browser already has this version."""
    headers = _HEADERS | {"Cache-Control": "public, max-age=300", "ETag": f'W/"{_HASH}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(b"", status_code=304, headers={"Vary": "Accept-Encoding", **headers})
    return _SCRIPT.response(request, headers)


@route("GET", IMMUTABLE_SCRIPT_PATH)
async def immutable_script(request: AnyRequest) -> Response[bytes]:
    return _SCRIPT.response(request, _HEADERS | IMMUTABLE)


ROUTES = (script, immutable_script)
