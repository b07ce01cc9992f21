"""Wire types for identity secrets."""

from typing import Annotated, Self

from pydantic import Field

from penstock.accounts.model import SigningSecret
from penstock.base.clock import iso, iso_or_none
from penstock.http.schema import Record


class IdentitySecretRecord(Record):
    """An identity secret without the secret itself."""

    id: str
    created_at: str
    valid_until: Annotated[
        str | None,
        Field(
            description="When the secret expires, once it has been replaced; null "
            "for the current secret."
        ),
    ]

    @classmethod
    def from_secret(cls, secret: SigningSecret) -> Self:
        return cls(
            id=secret.id,
            created_at=iso(secret.created_at_ms),
            valid_until=iso_or_none(secret.valid_until_ms),
        )


class NewIdentitySecretRecord(IdentitySecretRecord):
    """A new identity secret."""

    secret: Annotated[str, Field(description="The secret, shown only once.", repr=False)] = ""

    @classmethod
    def with_secret(cls, secret: SigningSecret) -> Self:
        return cls.from_secret(secret).model_copy(update={"secret": secret.secret})
