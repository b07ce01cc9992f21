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
)

from penstock.metadb.tables.base import metadata, named_records, required

saved_cohorts = named_records(
    "saved_cohorts",
    required("kind", Text, comment="list or rule"),
    required("funnel_id", Text, comment="the funnel may have been deleted since"),
    required("parameters", JSON),  # query parameters of a list of units
    Column("visitors", Integer, comment="number of visitors of a list; unset for a rule"),
    required("is_complete", Boolean, comment="false while a list is being saved"),
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
