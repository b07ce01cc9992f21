"""Wire types for identity secrets."""

from typing import Annotated

from pydantic import Field

from penstock.http.schema import Iso, Record


class IdentitySecretRecord(Record):
    """An identity secret without the secret itself."""

    id: str
    created_at: Iso
    valid_until: Iso | None
    """When the secret expires, once it has been replaced; null for the current secret."""


class NewIdentitySecretRecord(IdentitySecretRecord):
    """A new identity secret."""

    secret: Annotated[str, Field(repr=False)] = ""
    """The secret, shown only once."""
