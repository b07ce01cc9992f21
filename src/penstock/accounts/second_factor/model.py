"""Plain types for the second factor. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """A user's second factor. secret: the sealed secret that codes are computed from.

    confirmed_at_ms: None during setup. last_step: time step of the last accepted code.
    """

    secret: str
    confirmed_at_ms: int | None
    last_step: int | None
