"""Wire types for password resets."""

from typing import Annotated

from pydantic import Field, SecretStr

from penstock.accounts.schema import Email, NewPassword
from penstock.http.schema import Input


class PasswordResetRequest(Input):
    email: Email


class PasswordReset(Input):
    """A new password and its token, which is sent in a body because URLs end up in logs."""

    token: Annotated[SecretStr, Field(max_length=200)]
    password: NewPassword
