"""Query parameters of the pages about deletions."""

from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.activity.schema import Text
from penstock.base.clock import parse_time
from penstock.http.schema import Query, RuleBroken

_LOCAL_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$"


def _is_a_time(text: str) -> str:
    try:
        parse_time(f"{text}Z")
    except ValueError:
        raise RuleBroken("not_a_time", "This is not a valid date and time.") from None
    return text


FieldTime = Annotated[str, Field(pattern=_LOCAL_TIME), AfterValidator(_is_a_time)]
"""The value of a browser's date and time field, read as UTC."""


class NewDeletionQuery(Query):
    """The target of a deletion that has not been confirmed yet."""

    website_id: str | None = None
    visitor_id: Text | None = None
    user_id: Text | None = None
    from_: Annotated[FieldTime | None, Field(alias="from")] = None
    to: FieldTime | None = None
