"""Wire types of confirmations."""

from typing import Annotated

from pydantic import Field, SecretStr

from penstock.http.schema import Input


class ConfirmationToken(Input):
    """The token from a mailed link."""

    token: Annotated[SecretStr, Field(max_length=200)]
