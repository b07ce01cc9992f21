"""JSON responses."""

from collections.abc import Callable
from typing import Any, TypeVar

from litestar import Response
from litestar.enums import MediaType
from pydantic import BaseModel
from pydantic_core import to_json

from penstock.base.paging import Listing

T = TypeVar("T")


def answer(
    content: BaseModel | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """A JSON response from a record, or from a dict of records and plain values."""
    body = (
        content.model_dump_json().encode() if isinstance(content, BaseModel) else to_json(content)
    )
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=headers)


def listing(page: Listing[T], record: Callable[[T], object] | None = None) -> Response[bytes]:
    """A page of a list. record: converts an entry to its wire type, unless it already has one."""
    data = list(map(record, page.data)) if record else list(page.data)
    return answer(
        {"data": data, "page": page.page.number, "pageSize": page.page.size, "total": page.total}
    )


def no_content() -> Response[None]:
    return Response(None, status_code=204)
