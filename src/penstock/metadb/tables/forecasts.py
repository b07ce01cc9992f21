"""Tables of forecasts, which are made again every day."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from penstock.metadb.tables.base import metadata, required, workspace_id

forecast_records = Table(
    "forecast_records",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    Column("question", Text, primary_key=True, comment="hash of all that determines it"),
    required("evaluated_at", BigInteger),
    required("made_at", BigInteger),
    required("content", Text, comment="chances, calibration and earlier forecasts, as JSON"),
    Index(None, "made_at"),
)

funnel_forecasts = Table(
    "funnel_forecasts",
    metadata,
    Column("funnel_id", Text, ForeignKey("funnels.id", ondelete="CASCADE"), primary_key=True),
    workspace_id(),
    required("revision", Integer, comment="that of the definition"),
    required("due_at", BigInteger, comment="when a node makes the next one"),
    required("attempts", Integer, comment="those that failed or are under way"),
    Column("evaluated_at", BigInteger, comment="unset: there is none yet"),
    Column("content", Text, comment="the forecast as in a response, as JSON; unset: nothing open"),
    Index(None, "due_at"),
)
