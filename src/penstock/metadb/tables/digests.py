"""The table of weekly digests."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKeyConstraint, Integer, Table, Text

from penstock.metadb.tables.base import metadata, required

digests = Table(
    "digests",
    metadata,
    Column("workspace_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    required("weekday", Integer, comment="1 for Monday to 7 for Sunday"),
    required("hour", Integer, comment="0 to 23, in the time zone"),
    required("timezone", Text),
    Column("funnel_ids", JSON(none_as_null=True), comment="unset: all funnels of the workspace"),
    required("slot_at", BigInteger, comment="time of the next digest"),
    required(
        "due_at",
        BigInteger,
        index=True,
        comment="when a node works on it: later than its time during an attempt",
    ),
    Column("sent_at", BigInteger, comment="when the last digest was sent"),
    ForeignKeyConstraint(
        ["workspace_id", "user_id"],
        ["memberships.workspace_id", "memberships.user_id"],
        ondelete="CASCADE",
    ),
)
