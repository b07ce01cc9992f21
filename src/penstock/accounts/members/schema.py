"""Wire types for members."""

from penstock.accounts.model import Role
from penstock.http.schema import Input, Iso, Query, Record


class RemovalQuery(Query):
    revoke_keys: bool = False
    """Whether to revoke the API keys that the member created."""


class RoleChange(Input):
    role: Role


class MemberRecord(Record):
    user_id: str
    email: str
    role: Role
    since: Iso
    """When the user joined the workspace."""
    second_factor: bool
    """Whether logging in requires a code."""
