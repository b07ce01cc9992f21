"""Wire types for identity secrets."""

from typing import Annotated

from pydantic import Field

from penstock.http.schema import Iso, Record


class IdentitySecretRecord(Record):
    """An identity secret without the secret itself."""

    id: str
    created_at: Iso
    valid_until: Annotated[
        Iso | None,
        Field(
            description="When the secret expires, once it has been replaced; null "
            "for the current secret."
        ),
    ]


class NewIdentitySecretRecord(IdentitySecretRecord):
    """A new identity secret."""

    secret: Annotated[str, Field(description="The secret, shown only once.", repr=False)] = ""
