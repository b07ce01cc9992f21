"""Wire types for confirmations."""

from typing import Annotated

from pydantic import Field, SecretStr

from penstock.http.schema import Input


class ConfirmationToken(Input):
    """The token from a confirmation email."""

    token: Annotated[SecretStr, Field(max_length=200)]
