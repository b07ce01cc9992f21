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

from penstock.metadb.tables.base import metadata, required, workspace_id

saved_cohorts = Table(
    "saved_cohorts",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("name", Text),
    required("kind", Text, comment="list or rule"),
    required("funnel_id", Text, comment="the funnel may have been deleted since"),
    required("parameters", JSON),  # query parameters of a list of units
    Column("visitors", Integer, comment="number of visitors of a list; unset for a rule"),
    required("is_complete", Boolean, comment="false while a list is being saved"),
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "created_at"),
)

cohort_visitors = Table(
    "cohort_visitors",
    metadata,
    Column("cohort_id", Text, ForeignKey("saved_cohorts.id", ondelete="CASCADE"), primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True, comment="canonical when the list was saved"),
    required(
        "visitor_key",
        BigInteger,
        comment="key in the event store, an unsigned number, stored as a signed one",
    ),
    Index(None, "scope_id", "visitor_id"),
    sqlite_with_rowid=False,
)
