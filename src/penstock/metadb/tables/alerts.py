"""Tables of alerts: their channels, their findings, and their messages."""

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

from penstock.metadb.tables.base import metadata, named_records, required, workspace_id

alerts = named_records(
    "alerts",
    required("condition", JSON, comment="as in the API"),
    Column("quiet_hours", JSON, comment="as in the API; unset: none"),
    required("is_paused", Boolean),
    Column("snoozed_until", BigInteger, comment="messages wait until then"),
    required("checked_from", BigInteger, comment="periods that end earlier are not judged"),
    required("due_at", BigInteger, comment="of the next check; its node moves it ahead meanwhile"),
    required("verdict", Text, comment="alarming, fine or undecided"),
    Column("checked_at", BigInteger),
    Column("basis", Text, comment="identifies the definition behind the findings"),
    Column("problem", Text, comment="why the last check failed; unset: it did not"),
    Index(None, "due_at"),
)

alert_channels = Table(
    "alert_channels",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("alert_id", Text, ForeignKey("alerts.id", ondelete="CASCADE")),
    required("kind", Text, comment="email, webhook or chat"),
    required("target", Text, comment="ID of the user, URL of a webhook, or host of a chat"),
    Column("secret", Text, comment="encrypted: secret of a webhook, or URL of a chat"),
    Index(None, "alert_id"),
)

alert_findings = Table(
    "alert_findings",
    metadata,
    Column("alert_id", Text, ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True),
    Column("start_at", BigInteger, primary_key=True, autoincrement=False),
    required("end_at", BigInteger),
    required("verdict", Text, comment="alarming or fine; undecided after a correction"),
    required("figures", JSON, comment="of the moment at which the verdict became final"),
    required("found_at", BigInteger),
    Column("message_id", Text, comment="of the message about it; unset: none was needed"),
    sqlite_with_rowid=False,
)

alert_messages = Table(
    "alert_messages",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("alert_id", Text, ForeignKey("alerts.id", ondelete="CASCADE")),
    required("kind", Text, comment="alarm, recovery, correction or test"),
    required(
        "message",
        JSON,
        comment="subject, lines, link, figures, corrects, and properties that lines state",
    ),
    required("report", Text, comment="page that shows the figures, with all parameters"),
    required("created_at", BigInteger),
    Index(None, "alert_id", "created_at"),
)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    required("message_id", Text, ForeignKey("alert_messages.id", ondelete="CASCADE")),
    required("channel_id", Text, ForeignKey("alert_channels.id", ondelete="CASCADE"), index=True),
    required("state", Text, comment="waiting, sent, failed or cancelled"),
    required(
        "due_at", BigInteger, comment="of the next attempt; its node moves it ahead meanwhile"
    ),
    required("attempts", Integer),
    Column("error", Text, comment="why the last attempt failed"),
    Column("sent_at", BigInteger),
    UniqueConstraint("message_id", "channel_id"),
    Index(None, "state", "due_at"),
)
