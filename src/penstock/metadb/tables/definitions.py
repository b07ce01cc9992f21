"""Tables of definitions: goals, funnels, segments and internal traffic."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
)

from penstock.metadb.tables.base import metadata, named_records, required, workspace_id

goals = named_records(
    "goals",
    required("match", JSON),  # type, value and filters, in the API's format
    required("revision", Integer, comment="from 1; rises with each new match"),
)

funnels = Table(
    "funnels",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("name", Text),
    required("definition", JSON),  # the API's format, with all defaults
    required("revision", Integer),  # the latest revision in funnel_revisions
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Column("folder", Text),
    Index(None, "workspace_id", "created_at"),
    Index(None, "workspace_id", "folder"),
)

funnel_revisions = Table(
    "funnel_revisions",
    metadata,
    Column("funnel_id", Text, ForeignKey("funnels.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "revision",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="1, 2, 3, ... without a gap; the last one is the funnel's",
    ),
    workspace_id(),
    required("name", Text, comment="what the funnel was called then"),
    required("definition", JSON),
    required("created_at", BigInteger),
)

funnel_goals = Table(
    "funnel_goals",
    metadata,
    Column("funnel_id", Text, ForeignKey("funnels.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "goal_id",
        Text,
        ForeignKey("goals.id"),
        primary_key=True,
        index=True,
        comment="a goal in use cannot be deleted",
    ),
)

segments = named_records(
    "segments",
    required("filters", JSON),  # the API's format
    required("revision", Integer, comment="from 1; rises with each change of filters"),
)

internal_traffic = Table(
    "internal_traffic",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    required("filters", JSON, comment="an entry that meets any is left out"),
    required("revision", Integer, comment="from 1; rises with each change"),
    required("updated_at", BigInteger),
)
