"""Tables of annotations."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table, Text

from penstock.metadb.tables.base import metadata, required

annotations = Table(
    "annotations",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    Column("id", Text, primary_key=True, comment="the client may choose it"),
    required("text", Text),
    required("at", BigInteger, comment="of a day: its start in UTC"),
    Column("day", Text, comment="a whole day, such as 2026-11-20"),
    Column(
        "funnel_id",
        Text,
        ForeignKey("funnels.id", ondelete="CASCADE"),
        index=True,
        comment="unset: reports of all funnels show it",
    ),
    Column(
        "website_id",
        Text,
        ForeignKey("websites.id"),
        comment="unset: reports of all websites show it",
    ),
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Index(None, "workspace_id", "at"),
)
