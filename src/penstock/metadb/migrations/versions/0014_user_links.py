"""Remove links of users whose visitor belongs to another user now, or was absorbed.

Releasing a visitor left them behind: two users shared a visitor, and claims that named the earlier
one found the store in a state that no claim could change. Such a user gets a new link with the next
claim.

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        DELETE FROM user_links WHERE EXISTS (
            SELECT 1 FROM visitors
            WHERE visitors.scope_id = user_links.scope_id
                AND visitors.visitor_id = user_links.visitor_id
                AND (visitors.canonical_id != visitors.visitor_id
                    OR visitors.user_id != user_links.user_id))
        """
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
