"""Wire types of API keys."""

from typing import Annotated, Self

from pydantic import Field

from penstock.accounts.keys.model import ApiKey
from penstock.base.clock import iso, iso_or_none
from penstock.http.schema import Input, Name, Record


class NewKey(Input):
    name: Name


class KeyRecord(Record):
    id: str
    name: str
    prefix: Annotated[str, Field(description="First characters of the key, to recognize it by.")]
    created_at: str
    last_used_at: str | None
    revoked_at: str | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            prefix=key.prefix,
            created_at=iso(key.created_at_ms),
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
    def of(cls, key: ApiKey, secret: str) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            key=secret,
            prefix=key.prefix,
            created_at=iso(key.created_at_ms),
        )
