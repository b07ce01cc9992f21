"""Plain types of members. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, User


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a workspace. since_ms: when they joined.

    has_second_factor: whether their log-in asks for a code.
    """

    user: User
    role: Role
    since_ms: int
    has_second_factor: bool
