"""JSON responses, and files."""

import os
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar, cast

from anyio import to_thread
from litestar import Response
from litestar.enums import MediaType
from litestar.response import Stream
from pydantic import BaseModel
from pydantic_core import to_json

from penstock.base.paging import Listing

T = TypeVar("T")

_CHUNK_BYTES = 256 * 1024


def answer(
    content: BaseModel | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """A JSON response from a record, or from a dict of records and plain values."""
    return json_answer(
        content.model_dump_json().encode() if isinstance(content, BaseModel) else to_json(content),
        status,
        headers,
    )


def json_answer(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """A response whose JSON is written already."""
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=headers)


def listing(page: Listing[T], record: Callable[[T], object] | None = None) -> Response[bytes]:
    """A page of a list. record: converts an entry to its wire type, unless it already has one."""
    data = list(map(record, page.data)) if record else list(page.data)
    return answer(
        {"data": data, "page": page.page.number, "pageSize": page.page.size, "total": page.total}
    )


async def answer_list(
    page: Listing[T], record: Callable[[T], object] | None = None
) -> Response[bytes]:
    """As `listing`, in a thread: a hundred entries take longer than the event loop may be held."""
    return await to_thread.run_sync(listing, page, record)


def no_content() -> Response[None]:
    return Response(None, status_code=204)


def file_download(file: IO[bytes], name: str, media_type: str) -> Response[bytes]:
    """A file to save under a name. A temporary file disappears with the last reference to it."""
    return file_response(
        file, media_type, {"Content-Disposition": f'attachment; filename="{name}"'}
    )


def file_response(
    file: IO[bytes], media_type: str, headers: dict[str, str], status_code: int | None = None
) -> Response[bytes]:
    """A file as the body, read while it is sent."""
    stream = Stream(
        lambda: _chunks(file), media_type=media_type, headers=headers, status_code=status_code
    )
    return cast("Response[bytes]", stream)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The file from its start."""
    offset = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, offset):
        yield chunk
        offset += len(chunk)
