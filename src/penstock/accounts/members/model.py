"""Plain types for members. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, User


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a workspace. since_ms: time when they joined.

    has_second_factor: whether they must enter a code to log in.
    """

    user: User
    role: Role
    since_ms: int
    has_second_factor: bool
