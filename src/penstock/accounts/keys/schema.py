"""Wire types for API keys."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from penstock.http.period import read_time_ms
from penstock.http.schema import Input, Iso, Name, Record
from penstock.http.scopes import KeyScope


class NewKey(Input):
    name: Name
    scopes: Annotated[
        list[KeyScope] | None,
        Field(min_length=1, max_length=3, description="What the key may do; default: everything."),
    ] = None
    website_id: Annotated[str | None, Field(max_length=200)] = None
    """The only website that the key can access; default: all websites."""
    expires_at: Annotated[
        int | None,
        BeforeValidator(read_time_ms),
        WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
    ] = None
    """When the key stops working; default: never."""


class KeyRecord(Record):
    id: str
    name: str
    prefix: str
    """First characters of the key, by which people can recognise it."""
    created_at: Iso
    created_by: str | None
    """Email address of the member who created the key."""
    scopes: tuple[KeyScope, ...]
    website_id: str | None
    expires_at: Iso | None
    last_used_at: Iso | None
    revoked_at: Iso | None


class NewKeyRecord(Record):
    id: str
    name: str
    key: Annotated[str, Field(repr=False)]
    """The key, shown only once."""
    prefix: str
    created_at: Iso
