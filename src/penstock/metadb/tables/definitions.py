"""Tables of what people define: goals, funnels, segments and internal traffic."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from penstock.metadb.tables.base import metadata, workspace_id

goals = Table(
    "goals",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("name", Text, nullable=False),
    Column("match", JSON, nullable=False),  # type, value and filters, in the API's format
    Column("revision", Integer, nullable=False, comment="from 1; rises with each new match"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "created_at"),
)

funnels = Table(
    "funnels",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("name", Text, nullable=False),
    Column("definition", JSON, nullable=False),  # the API's format, with all defaults
    Column("revision", Integer, nullable=False),  # the latest revision in funnel_revisions
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
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
    Column("name", Text, nullable=False, comment="what the funnel was called then"),
    Column("definition", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
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

segments = Table(
    "segments",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("name", Text, nullable=False),
    Column("filters", JSON, nullable=False),  # the API's format
    Column(
        "revision", Integer, nullable=False, comment="from 1; rises with each change of filters"
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "created_at"),
)

internal_traffic = Table(
    "internal_traffic",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    Column("filters", JSON, nullable=False, comment="an entry that meets any is left out"),
    Column("revision", Integer, nullable=False, comment="from 1; rises with each change"),
    Column("updated_at", BigInteger, nullable=False),
)
