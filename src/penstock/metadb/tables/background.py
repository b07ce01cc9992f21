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

from penstock.metadb.tables.base import metadata, required, workspace_id

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("request", Text, comment="method and path of what it answers"),
    required("state", Text, comment="queued, running, done, failed or cancelled"),
    required("created_at", BigInteger),
    Column("started_at", BigInteger, comment="unset: it is queued"),
    Column("finished_at", BigInteger),
    required(
        "alive_at",
        BigInteger,
        comment="when its node last worked on it: an old time says that the node is gone",
    ),
    required("rows_read", BigInteger),
    required("rows_to_read", BigInteger, comment="estimated"),
    Column("status", Integer, comment="of the response; unset: there is none"),
    Column("media_type", Text, comment="of the response"),
    Column("headers", JSON, comment="of the response"),
    required("bytes", BigInteger, comment="length of the response"),
    Index(None, "workspace_id", "created_at"),
    Index(None, "alive_at"),
)

job_responses = Table(
    "job_responses",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False, comment="from 0"),
    required("content", LargeBinary),
)


outcome_claims = Table(
    "outcome_claims",
    metadata,
    Column("outcome", Text, primary_key=True),
    required(
        "number",
        BigInteger,
        comment="of the last change that began; the mark that ends it has the same",
    ),
    required("is_open", Boolean, comment="the change has not ended"),
    required("build", Text, comment="that the change makes; empty: it makes none"),
    required("opened_at", BigInteger),
    required("read_until", BigInteger, comment="rows know no event that occurs later"),
    required("dropped_until", BigInteger, comment="nobody builds it until then"),
)
