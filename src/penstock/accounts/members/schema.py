"""Wire types for members."""

from typing import Annotated, Self

from pydantic import Field

from penstock.accounts.members.model import Member
from penstock.accounts.model import Role
from penstock.base.clock import iso
from penstock.http.schema import Input, Query, Record


class RemovalQuery(Query):
    revoke_keys: Annotated[
        bool, Field(description="Whether to revoke the API keys that the member created.")
    ] = False


class RoleChange(Input):
    role: Role


class MemberRecord(Record):
    user_id: str
    email: str
    role: Role
    since: Annotated[str, Field(description="When the user joined the workspace.")]
    second_factor: Annotated[bool, Field(description="Whether logging in requires a code.")]

    @classmethod
    def from_member(cls, member: Member) -> Self:
        return cls(
            user_id=member.user.id,
            email=member.user.email,
            role=member.role,
            since=iso(member.since_ms),
            second_factor=member.has_second_factor,
        )
