"""Plain types of invitations. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, Workspace
from penstock.base.ids import InvitationId


@dataclass(frozen=True, slots=True)
class Invitation:
    """An open invitation without its token. invited_by: email address at that time.

    proves_address: whether it was found by the token of its mail, which only the invited person
    has. The person who invites knows the URL as well.
    """

    id: InvitationId
    workspace: Workspace
    email: str
    role: Role
    invited_by: str
    created_at_ms: int
    expires_at_ms: int
    proves_address: bool = False
