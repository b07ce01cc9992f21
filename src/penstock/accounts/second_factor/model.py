"""Plain types for the second factor. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """A user's second factor. secret: the sealed secret that codes are computed from.

    confirmed_at_ms: None during setup. last_step: time step of the last accepted code.
    """

    secret: str
    confirmed_at_ms: int | None
    last_step: int | None


class SecondFactorState(NamedTuple):
    """The second factor's state, as shown to the user.

    enabled_at_ms: None if the user does not need a code to log in. recovery_codes: number of unused
    recovery codes.
    """

    enabled_at_ms: int | None
    recovery_codes: int


class Enrolment(NamedTuple):
    """Data for an authenticator app. uri: the secret as `otpauth://`, for a QR code."""

    secret: str
    uri: str
