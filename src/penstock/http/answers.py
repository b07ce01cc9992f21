"""JSON responses and file downloads."""

import os
from collections.abc import Iterator
from typing import IO, Any, cast
from urllib.parse import quote

from litestar import Response
from litestar.enums import MediaType
from litestar.response import Stream
from pydantic import BaseModel
from pydantic_core import to_json

from penstock.base.clock import iso
from penstock.base.paging import Listing

_CHUNK_BYTES = 256 * 1024
_MAX_TITLE_CHARS = 80


def answer(
    content: BaseModel | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """Build a JSON response from a record, or from a dict of records and plain values."""
    return json_answer(
        content.model_dump_json().encode() if isinstance(content, BaseModel) else to_json(content),
        status,
        headers,
    )


def json_answer(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """Build a response from a body that is already JSON."""
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=headers)


def listing(page: Listing[Any]) -> Response[bytes]:
    """Build the response for a page of records."""
    entries, number, size = list(page.data), page.page.number, page.page.size
    return answer({"data": entries, "page": number, "pageSize": size, "total": page.total})


def no_content() -> Response[None]:
    return Response(None, status_code=204)


def file_download(file: IO[bytes], name: str, media_type: str) -> Response[bytes]:
    """Build a download of a file under a name. A temporary file is deleted when its last reference
    goes away.
    """
    in_ascii = name.encode("ascii", "ignore").decode().strip("-")
    disposition = f'attachment; filename="{in_ascii}"'
    if in_ascii != name:
        disposition += f"; filename*=UTF-8''{quote(name, safe='')}"
    return file_response(file, media_type, {"Content-Disposition": disposition})


def file_name(title: str, start_ms: int | None, end_ms: int | None, extension: str) -> str:
    """Build a file name from a title and the first and last day of a period in UTC.

    For example `checkout-2026-10-28-to-2026-11-26.csv`. end_ms: end of the period, exclusive.
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in title.lower())
    words = "-".join(letters.split())[:_MAX_TITLE_CHARS].strip("-") or "funnel"
    if start_ms is None or end_ms is None:
        return f"{words}-all-time.{extension}"
    first, last = (iso(at_ms)[:10] for at_ms in (start_ms, end_ms - 1))
    return f"{words}-{first if first == last else f'{first}-to-{last}'}.{extension}"


def file_response(
    file: IO[bytes], media_type: str, headers: dict[str, str], status_code: int | None = None
) -> Response[bytes]:
    """Build a response that reads its body from a file while sending it."""
    stream = Stream(
        lambda: _chunks(file), media_type=media_type, headers=headers, status_code=status_code
    )
    return cast("Response[bytes]", stream)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the file's content from its start, in chunks."""
    offset = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, offset):
        yield chunk
        offset += len(chunk)
