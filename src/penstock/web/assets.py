"""Static files of the pages, which browsers cache for a year: stylesheets, modules, libraries.

Their addresses contain a hash of all files, so that modules that import each other by relative
paths always have the same version.
"""

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from litestar import Response

from penstock.http.requests import AnyRequest

IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of a file whose address contains its hash."""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    media_type: str
    body: bytes
    gzipped: bytes

    @classmethod
    def from_body(cls, media_type: str, body: bytes) -> "Asset":
        return cls(media_type, body, gzip.compress(body, 9, mtime=0))

    def response(self, request: AnyRequest, headers: Mapping[str, str]) -> Response[bytes]:
        """Return the file, compressed if the browser accepts that. headers: additional headers."""
        is_compressed = accepts_gzip(request)
        encoding = {"Content-Encoding": "gzip"} if is_compressed else {}
        return Response(
            self.gzipped if is_compressed else self.body,
            media_type=self.media_type,
            headers={"Vary": "Accept-Encoding", **headers, **encoding},
        )


@cache
def assets() -> tuple[str, Mapping[str, Asset]]:
    """Return the hash of all files, and the files by their paths below `static/`."""
    by_path = {
        path: Asset.from_body(_TYPES[_suffix(path)], file.read_bytes())
        for path, file in _files(files("penstock.web").joinpath("static"))
        if _suffix(path) in _TYPES
    }
    version = sha256()
    for path in sorted(by_path):
        version.update(path.encode() + b"\0" + by_path[path].body)
    return version.hexdigest()[:12], by_path


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    """List the files of a folder and its subfolders, with their paths relative to the first
    folder.
    """
    entries = [(prefix + entry.name, entry) for entry in folder.iterdir()]
    nested = [_files(entry, f"{path}/") for path, entry in entries if entry.is_dir()]
    files = [(path, entry) for path, entry in entries if entry.is_file()]
    return [*files, *(file for folder_files in nested for file in folder_files)]


def _suffix(path: str) -> str:
    return path[path.rfind(".") :]


def asset_url(path: str) -> str:
    """Return the address of a file below `static/`. Raises `KeyError` for an unknown file."""
    version, by_path = assets()
    if path not in by_path:
        raise KeyError(f"web/static has no {path}")
    return f"/static/{version}/{path}"


def accepts_gzip(request: AnyRequest) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")
