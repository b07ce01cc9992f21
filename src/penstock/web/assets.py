"""The files that pages load: stylesheets, modules, libraries. Read once, compressed once, kept by browsers for a year.

Their address carries one hash over all of them, so that modules which import each other by relative paths always come from one version.
"""

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromPath

from penstock.base.errors import NotFound

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    media_type: str
    body: bytes
    gzipped: bytes


@cache
def _assets() -> tuple[str, Mapping[str, Asset]]:
    """The hash over all files, and the files by their path below `static/`."""
    found = {path: _asset(path, file) for path, file in _files(files("penstock.web").joinpath("static")) if _ending(path) in _TYPES}
    whole = sha256()
    for path in sorted(found):
        whole.update(path.encode() + b"\0" + found[path].body)
    return whole.hexdigest()[:12], found


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    inside = [(prefix + entry.name, entry) for entry in folder.iterdir()]
    below = [one for path, entry in inside if entry.is_dir() for one in _files(entry, f"{path}/")]
    return [one for one in inside if one[1].is_file()] + below


def _asset(path: str, file: Traversable) -> Asset:
    body = file.read_bytes()
    return Asset(_TYPES[_ending(path)], body, gzip.compress(body, 9, mtime=0))


def _ending(path: str) -> str:
    return path[path.rfind(".") :]


def asset_url(path: str) -> str:
    """The address of a file below `static/`; KeyError when there is none, so that a wrong name fails at once."""
    version, found = _assets()
    if path not in found:
        raise KeyError(f"web/static has no {path}")
    return f"/static/{version}/{path}"


def takes_gzip(request: Request[Any, Any, Any]) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


@get("/static/{version:str}/{path:path}", sync_to_thread=True)
def asset(request: Request[Any, Any, Any], version: FromPath[str], path: FromPath[str]) -> Response[bytes]:
    """A tab that was opened before an upgrade asks for files of an earlier version: it gets today's, and keeps them for no time."""
    current, found = _assets()
    if (file := found.get(path.lstrip("/"))) is None:
        raise NotFound("There is nothing at this address.")
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if version == current else "no-cache",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if takes_gzip(request):
        return Response(file.gzipped, media_type=file.media_type, headers=headers | {"Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)
