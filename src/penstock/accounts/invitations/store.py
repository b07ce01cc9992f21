"""SQL for invitations. Each function runs in the transaction of its connection."""

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, or_, select

from penstock.accounts.invitations.model import Invitation
from penstock.accounts.model import Role, Workspace
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.rows import record_values, row_values
from penstock.metadb.tables import invitations, workspaces


def add_invitation(
    db: Connection,
    invitation: Invitation,
    token_hash: bytes,
    mailed_token_hash: bytes | None,
) -> None:
    """Store the invitation, replacing an earlier one for the same email address.

    mailed_token_hash: None if the invitation is not emailed.
    """
    is_earlier = (
        invitations.c.workspace_id == invitation.workspace.id,
        invitations.c.email == invitation.email,
    )
    db.execute(delete(invitations).where(*is_earlier))
    others = {
        "workspace_id": invitation.workspace.id,
        "token_hash": token_hash,
        "mailed_token_hash": mailed_token_hash,
    }
    values = row_values(invitation, invitations, without=others)
    db.execute(insert(invitations).values(values | others))


def delete_expired_invitations(db: Connection, workspace_id: WorkspaceId, now_ms: int) -> None:
    db.execute(
        delete(invitations).where(
            invitations.c.workspace_id == workspace_id, invitations.c.expires_at <= now_ms
        )
    )


def _open_invitations(now_ms: int) -> Select[Any]:
    workspace = (workspaces.c.name, workspaces.c.created_at.label("workspace_created_at"))
    return select(invitations, *workspace).join(workspaces).where(invitations.c.expires_at > now_ms)


def _invitation(row: Row[Any], token_hash: bytes | None = None) -> Invitation:
    fields = ("id", "email", "invited_by", "created_at_ms", "expires_at_ms")
    return Invitation(
        **record_values(row, fields),
        workspace=Workspace(WorkspaceId(row.workspace_id), row.name, row.workspace_created_at),
        role=Role(row.role),
        proves_address=token_hash is not None and row.mailed_token_hash == token_hash,
    )


def invitations_page(
    db: Connection, workspace_id: WorkspaceId, now_ms: int, page: Page
) -> Listing[Invitation]:
    """List open invitations, newest first."""
    statement = _open_invitations(now_ms).where(invitations.c.workspace_id == workspace_id)
    return listing_of(db, statement.order_by(*newest_first(invitations)), page, _invitation)


def invitation(db: Connection, token_hash: bytes, now_ms: int) -> Invitation | None:
    """Find the open invitation with this token, from its URL or its email, in any workspace."""
    c = invitations.c
    has_token = or_(c.token_hash == token_hash, c.mailed_token_hash == token_hash)
    row = db.execute(_open_invitations(now_ms).where(has_token)).first()
    return None if row is None else _invitation(row, token_hash)


def end_invitation(db: Connection, workspace_id: WorkspaceId, invitation_id: str) -> bool:
    """Delete the invitation. Returns False if it no longer exists."""
    is_invitation = (invitations.c.workspace_id == workspace_id, invitations.c.id == invitation_id)
    return db.execute(delete(invitations).where(*is_invitation)).rowcount > 0
