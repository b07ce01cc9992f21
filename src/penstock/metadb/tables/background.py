"""Tables of work in the background: jobs, their responses, and stored outcomes."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from penstock.metadb.tables.base import metadata, workspace_id

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("request", Text, nullable=False, comment="method and path of what it answers"),
    Column("state", Text, nullable=False, comment="queued, running, done, failed or cancelled"),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger, comment="unset: it is queued"),
    Column("finished_at", BigInteger),
    Column(
        "alive_at",
        BigInteger,
        nullable=False,
        comment="when its node last worked on it: an old time says that the node is gone",
    ),
    Column("rows_read", BigInteger, nullable=False),
    Column("rows_to_read", BigInteger, nullable=False, comment="estimated"),
    Column("status", Integer, comment="of the response; unset: there is none"),
    Column("media_type", Text, comment="of the response"),
    Column("headers", JSON, comment="of the response"),
    Column("bytes", BigInteger, nullable=False, comment="length of the response"),
    Index(None, "workspace_id", "created_at"),
    Index(None, "alive_at"),
)

job_responses = Table(
    "job_responses",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False, comment="from 0"),
    Column("content", LargeBinary, nullable=False),
)


outcome_claims = Table(
    "outcome_claims",
    metadata,
    Column("outcome", Text, primary_key=True),
    Column(
        "number",
        BigInteger,
        nullable=False,
        comment="of the last change that began; the mark that ends it has the same",
    ),
    Column("is_open", Boolean, nullable=False, comment="the change has not ended"),
    Column("build", Text, nullable=False, comment="that the change makes; empty: it makes none"),
    Column("opened_at", BigInteger, nullable=False),
    Column(
        "read_until", BigInteger, nullable=False, comment="rows know no event that occurs later"
    ),
    Column("dropped_until", BigInteger, nullable=False, comment="nobody builds it until then"),
)
