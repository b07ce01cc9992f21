"""The table of shared reports."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    Text,
)

from penstock.metadb.tables.base import metadata, required, workspace_id

shares = Table(
    "shares",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("funnel_id", Text, ForeignKey("funnels.id", ondelete="CASCADE")),
    required("name", Text),
    required("token_hash", LargeBinary, unique=True, comment="SHA-256 of the token"),
    required("parameters", JSON),  # query parameters of the report's page
    required("created_at", BigInteger),
    required("created_by", Text, comment="e-mail address of the member, or name of the key"),
    Column("expires_at", BigInteger, comment="unset: never"),
    required("opens", BigInteger, comment="how often it was opened"),
    Column("last_opened_at", BigInteger),
    Index(None, "workspace_id", "created_at"),
    Index(None, "funnel_id", "created_at"),
)
