"""Plain types for invitations. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.accounts.model import Role, Workspace
from penstock.base.ids import InvitationId


@dataclass(frozen=True, slots=True)
class Invitation:
    """An open invitation without its token. invited_by: the inviter's email address at that time.

    proves_address: whether the lookup used the emailed token, which only the invited person knows.
    The token in the URL does not prove the address, because the inviter also knows it.
    """

    id: InvitationId
    workspace: Workspace
    email: str
    role: Role
    invited_by: str
    created_at_ms: int
    expires_at_ms: int
    proves_address: bool = False

    @property
    def workspace_name(self) -> str:
        return self.workspace.name
