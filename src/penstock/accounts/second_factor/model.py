"""Plain types of the second factor. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """What a user's codes are computed with. secret: sealed.

    confirmed_at_ms: None while it is being set up. last_step: time step of the last accepted code.
    """

    secret: str
    confirmed_at_ms: int | None
    last_step: int | None


class SecondFactorState(NamedTuple):
    """enabled_at_ms: None when log-in asks for no code. recovery_codes: how many are left."""

    enabled_at_ms: int | None
    recovery_codes: int


class Enrolment(NamedTuple):
    """What an authenticator app needs. uri: the secret as `otpauth://`, for its QR code."""

    secret: str
    uri: str
