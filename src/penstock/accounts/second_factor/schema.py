"""Wire types for the second factor."""

from typing import Annotated, Any, Self

import segno
from pydantic import Field, SecretStr, model_validator

from penstock.accounts.schema import Code
from penstock.accounts.second_factor.model import Enrolment, SecondFactorState
from penstock.base.clock import iso_or_none
from penstock.http.schema import Input, Record, RuleBroken


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
    enabled: Annotated[bool, Field(description="Whether logging in requires a code.")]
    enabled_at: str | None
    recovery_codes_left: int

    @classmethod
    def from_state(cls, state: SecondFactorState) -> Self:
        return cls(
            enabled=state.enabled_at_ms is not None,
            enabled_at=iso_or_none(state.enabled_at_ms),
            recovery_codes_left=state.recovery_codes,
        )


class EnrolmentRecord(Record):
    """Data for an authenticator app; shown only once."""

    secret: Annotated[str, Field(description="The secret, for typing into the app.", repr=False)]
    uri: Annotated[str, Field(description="The secret as an otpauth:// URI.", repr=False)]
    qr_code: Annotated[str, Field(description="The URI as a QR code, in a data URI.", repr=False)]

    @classmethod
    def from_enrolment(cls, enrolment: Enrolment) -> Self:
        code: Any = segno.make_qr(enrolment.uri, error="m")
        return cls(
            secret=enrolment.secret,
            uri=enrolment.uri,
            qr_code=code.svg_data_uri(scale=4, border=4, dark="#000", light="#fff"),
        )


class RecoveryCodesRecord(Record):
    recovery_codes: Annotated[
        list[str],
        Field(
            description="Recovery codes, shown only once. Each works once instead of "
            "a code from the app."
        ),
    ]
