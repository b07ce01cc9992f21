"""Tables of webhooks: what they have said about units, and the messages that wait."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from penstock.metadb.tables.base import AutoId, metadata, required, workspace_id

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("name", Text),
    required("url", Text),
    required("funnel_id", Text, ForeignKey("funnels.id", ondelete="CASCADE"), index=True),
    Column("website_id", Text, comment="unset: all websites"),
    required("events", JSON, comment="types of its messages"),
    Column("expiring_before_seconds", Integer, comment="before the window ends"),
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Column("paused_at", BigInteger),
    required("starts_at", BigInteger, comment="earlier outcomes are not sent"),
    required("position", Text, comment="JSON: up to where stored outcomes were read"),
    Column("problem", Text, comment="why no messages are made"),
    required("failures", Integer, comment="failed deliveries since the last that succeeded"),
    Column("failing_since", BigInteger),
    required("next_try_at", BigInteger),
    required("batch", Integer, comment="messages of the delivery that was begun; 0: none"),
    required("lease", Text, comment="whose deliveries these are until leased_until"),
    required("leased_until", BigInteger),
    required("took", Integer, comment="milliseconds of the last delivery"),
    Index(None, "workspace_id", "created_at"),
)

webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    required("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), index=True),
    required("secret", Text, comment="encrypted: signatures are computed with it"),
    required("created_at", BigInteger),
    Column("valid_until", BigInteger, comment="set once another took its place"),
)

webhook_units = Table(
    "webhook_units",
    metadata,
    Column("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True),
    Column("unit", BigInteger, primary_key=True, autoincrement=False, comment="key, as signed"),
    required("facts", Text, comment="JSON: the time of each outcome that messages were made of"),
    required("last_at", BigInteger, comment="of the newest of them"),
    Index(None, "webhook_id", "last_at"),
    sqlite_with_rowid=False,
)

webhook_messages = Table(
    "webhook_messages",
    metadata,
    Column("number", AutoId, primary_key=True, comment="order of the deliveries"),
    required("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE")),
    required("id", Text, comment="the same for the same outcome"),
    Column("scope_id", Text, comment="of the visitor; unset: unknown"),
    Column("visitor_id", Text),
    required("body", Text, comment="JSON"),
    required("created_at", BigInteger),
    Index(None, "webhook_id", "number"),
    Index(None, "scope_id", "visitor_id"),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("number", AutoId, primary_key=True),
    required("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE")),
    required("at", BigInteger),
    required("message_id", Text, comment="ID of the request"),
    required("messages", Integer),
    Column("status", Integer, comment="of the response; unset: there was none"),
    required("text", Text, comment="start of the response, or why there was none"),
    required("took", Integer, comment="milliseconds"),
    Index(None, "webhook_id", "number"),
)
