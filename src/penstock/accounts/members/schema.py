"""Wire types for members."""

from typing import Annotated

from pydantic import Field

from penstock.accounts.model import Role
from penstock.http.schema import Input, Iso, Query, Record


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
    since: Annotated[Iso, Field(description="When the user joined the workspace.")]
    second_factor: Annotated[bool, Field(description="Whether logging in requires a code.")]
