"""Wire types for API keys."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from penstock.accounts.keys.model import ApiKey
from penstock.base.clock import iso, iso_or_none
from penstock.http.period import read_time_ms
from penstock.http.schema import Input, Name, Record
from penstock.http.scopes import KeyScope


class NewKey(Input):
    name: Name
    scopes: Annotated[
        list[KeyScope] | None,
        Field(min_length=1, max_length=3, description="What the key may do; default: everything."),
    ] = None
    website_id: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The only website that the key can access; default: all websites.",
        ),
    ] = None
    expires_at: Annotated[
        int | None,
        BeforeValidator(read_time_ms),
        WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
        Field(description="When the key stops working; default: never."),
    ] = None


class KeyRecord(Record):
    id: str
    name: str
    prefix: Annotated[
        str, Field(description="First characters of the key, by which people can recognise it.")
    ]
    created_at: str
    created_by: Annotated[
        str | None, Field(description="Email address of the member who created the key.")
    ]
    scopes: tuple[KeyScope, ...]
    website_id: str | None
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None

    @classmethod
    def from_key(cls, key: ApiKey) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            prefix=key.prefix,
            created_at=iso(key.created_at_ms),
            created_by=key.created_by,
            scopes=tuple(scope for scope in KeyScope if scope in key.scopes),
            website_id=key.website_id,
            expires_at=iso_or_none(key.expires_at_ms),
            last_used_at=iso_or_none(key.last_used_at_ms),
            revoked_at=iso_or_none(key.revoked_at_ms),
        )


class NewKeyRecord(Record):
    id: str
    name: str
    key: Annotated[str, Field(description="The key, shown only once.", repr=False)]
    prefix: str
    created_at: str

    @classmethod
    def from_key(cls, key: ApiKey, secret: str) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            key=secret,
            prefix=key.prefix,
            created_at=iso(key.created_at_ms),
        )
