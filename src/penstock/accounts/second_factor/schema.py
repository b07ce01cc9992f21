"""Wire types for the second factor."""

from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from penstock.accounts.schema import Code
from penstock.http.schema import Input, Iso, Record, RuleBroken


class SecondFactorBegin(Input):
    password: Annotated[SecretStr, Field(max_length=1024)]


class SecondFactorProof(Input):
    """Either the password or a code, not both."""

    password: Annotated[SecretStr, Field(max_length=1024)] | None = None
    code: Code | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.password is None) == (self.code is None):
            raise RuleBroken("required", "Send either password or code.")
        return self


class SecondFactorRecord(Record):
    enabled: bool
    """Whether logging in requires a code."""
    enabled_at: Iso | None
    recovery_codes_left: int


class EnrolmentRecord(Record):
    """Data for an authenticator app; shown only once."""

    secret: Annotated[str, Field(repr=False)]
    """The secret, for typing into the app."""
    uri: Annotated[str, Field(repr=False)]
    """The secret as an otpauth:// URI."""
    qr_code: Annotated[str, Field(repr=False)]
    """The URI as a QR code, in a data URI."""


class RecoveryCodesRecord(Record):
    recovery_codes: list[str]
    """Recovery codes, shown only once. Each works once instead of a code from the app."""
