"""Tables of saved cohorts."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from penstock.metadb.tables.base import metadata, workspace_id

saved_cohorts = Table(
    "saved_cohorts",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False, comment="list or rule"),
    Column("funnel_id", Text, nullable=False, comment="the funnel may have been deleted since"),
    Column("parameters", JSON, nullable=False),  # query parameters of a list of units
    Column("visitors", Integer, comment="number of visitors of a list; unset for a rule"),
    Column("is_complete", Boolean, nullable=False, comment="false while a list is being saved"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "created_at"),
)

cohort_visitors = Table(
    "cohort_visitors",
    metadata,
    Column("cohort_id", Text, ForeignKey("saved_cohorts.id", ondelete="CASCADE"), primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True, comment="canonical when the list was saved"),
    Column(
        "visitor_key",
        BigInteger,
        nullable=False,
        comment="key in the event store, an unsigned number, stored as a signed one",
    ),
    Index(None, "scope_id", "visitor_id"),
    sqlite_with_rowid=False,
)
