"""Building responses from records."""

from typing import Any

from litestar import Response
from litestar.enums import MediaType
from pydantic import BaseModel
from pydantic_core import to_json

from penstock.base.paging import Listing


def answer(content: BaseModel | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """A JSON response of a record, or of a dict of records and plain values."""
    body = content.model_dump_json().encode() if isinstance(content, BaseModel) else to_json(content)
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=headers)


def listing(page: Listing[Any]) -> Response[bytes]:
    """A page of records, as the contract spells lists."""
    return answer({"data": list(page.data), "page": page.page.number, "pageSize": page.page.size, "total": page.total})


def no_content() -> Response[None]:
    return Response(None, status_code=204)
