"""Tables of what moves data in, out and away: imports, deletions and exports."""

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
    false,
)

from penstock.metadb.tables.base import metadata, workspace_id

imports = Table(
    "imports",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False),
    Column(
        "state", Text, nullable=False, comment="queued, running, done or failed"
    ),  # imports can also be `checking`, `checked` and `cancelled`
    Column("format", Text, nullable=False, server_default="ndjson"),
    Column("file_name", Text),
    Column("sha256", Text, nullable=False, comment="of the file as it was sent, in hex"),
    Column("bytes_total", BigInteger, nullable=False),
    Column("bytes_read", BigInteger, nullable=False),
    Column("lines_read", BigInteger, nullable=False),
    # Numbers of lines:
    Column("accepted", BigInteger, nullable=False),
    Column("duplicates", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column(
        "first_event_at",
        BigInteger,
        comment="earliest occurrence among accepted and repeated events",
    ),
    Column("last_event_at", BigInteger),
    Column(
        "affected_from",
        BigInteger,
        comment="earliest occurrence among all lines, rejected ones as far as they tell it",
    ),
    Column("affected_to", BigInteger),
    Column("error", Text, comment="why a failed import stopped"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("gap_dismissed_at", BigInteger, comment="an owner judged the gap harmless"),
    Column("gap_dismissed_by", Text, comment="ID of the user who did"),
    Column("warnings", JSON, comment="codes of the warnings about its events; unset: none"),
    Column(
        "empty_lines",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="skipped lines, among those read",
    ),
    Column(
        "identify_lines",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="lines that link visitors to a user, without an event",
    ),
    Column(
        "ignored_lines",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="lines with nothing that Penstock stores",
    ),
    Column(
        "identity_conflicts",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="lines whose visitor belongs to another user",
    ),
    Column(
        "accepts_stored_events",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="its sender had the permission manage",
    ),
    Column("mapping", JSON, comment="uses of the file's columns; unset: its own fields"),
    Column("sent_by", Text, comment="ID of the key or user; unset: not known"),
    Column(
        "revision",
        BigInteger,
        nullable=False,
        server_default="1",
        comment="rises with each change of the mapping",
    ),
    Index(None, "workspace_id", "created_at"),
    Index(None, "website_id", "created_at"),
    Index(None, "state"),
)

import_mappings = Table(
    "import_mappings",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("name", Text, nullable=False),
    Column("mapping", JSON, nullable=False),  # the API's format
    Column("columns_sha256", Text, nullable=False, comment="of the sorted names of its columns"),
    Column("revision", Integer, nullable=False, comment="from 1; rises with each change"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "columns_sha256"),
    Index(None, "workspace_id", "created_at"),
)

import_summaries = Table(
    "import_summaries",
    metadata,
    Column("import_id", Text, ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True),
    Column("summary", JSON, nullable=False, comment="as the API returns it"),
)

import_rejects = Table(
    "import_rejects",
    metadata,
    Column("import_id", Text, ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True),
    Column("line", BigInteger, primary_key=True, comment="from 1"),
    Column("errors", JSON, nullable=False),  # faults: field, code, message
    Column("line_text", Text, comment="beginning of the line as sent, redacted"),
)

deletions = Table(
    "deletions",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False),
    Column("scope_id", Text, nullable=False, comment="the website's identity scope"),
    Column("target", Text, nullable=False, comment="visitor, user, span or retention"),
    Column("visitor_id", Text, comment="as asked for; null once done"),
    Column("user_id", Text, comment="as asked for; null once done"),
    Column("from_at", BigInteger, comment="of a span: the first millisecond"),
    Column("to_at", BigInteger, comment="of a span: the first millisecond after it"),
    Column("kind", Text, comment="of retention: the kind of event"),
    Column(
        "visitor_ids",
        JSON,
        nullable=False,
        comment="the canonical visitor and all it absorbed; empty once done",
    ),
    Column(
        "open_imports",
        JSON,
        nullable=False,
        comment="IDs of the imports that were not done when it was asked for",
    ),
    Column(
        "outbox_id", BigInteger, nullable=False, comment="the newest bundle when it was asked for"
    ),
    Column("merge_id", BigInteger, nullable=False, comment="the newest merge that was removed"),
    Column(
        "key_id", BigInteger, nullable=False, comment="the newest dedupe key when it was asked for"
    ),
    Column(
        "keys_read",
        BigInteger,
        nullable=False,
        comment="dedupe keys are gone through up to this one",
    ),
    Column("state", Text, nullable=False, comment="queued, running or done"),
    Column("step", Text, comment="what is done now or next; null once done"),
    Column("visitors", BigInteger, nullable=False, comment="removed"),
    Column("user_links", BigInteger, nullable=False, comment="removed"),
    Column("events_found", BigInteger, comment="null until they are counted"),
    Column("events_removed", BigInteger, nullable=False),
    # Number of dedupe keys that lost the visitor's ID.
    Column("keys_cleared", BigInteger, nullable=False),
    Column("removed", JSON, comment="counts by store and kind of data"),
    Column("error", Text, comment="why it waits at the moment"),
    Column(
        "created_at",
        BigInteger,
        nullable=False,
        comment="when it was asked for: what was received later stays",
    ),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Index(None, "workspace_id", "created_at"),
    Index(None, "website_id", "created_at"),
    Index(None, "workspace_id", "target", "finished_at"),
    Index(None, "state"),
)

deletion_websites = Table(
    "deletion_websites",
    metadata,
    Column("deletion_id", Text, ForeignKey("deletions.id", ondelete="CASCADE"), primary_key=True),
    Column("website_id", Text, ForeignKey("websites.id"), primary_key=True, index=True),
    Column("events", BigInteger, comment="null until they are counted"),
    Column("first_event_at", BigInteger),
    Column("last_event_at", BigInteger),
)


exports = Table(
    "exports",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    Column("destination", Text, nullable=False, comment="folder or bucket, named by the client"),
    Column("file_format", Text, nullable=False),
    Column("exported_by", Text, nullable=False, comment="e-mail address or name of the key"),
    Column("first_day", Text, comment="first day of events that it read, in UTC"),
    Column("last_day", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column(
        "destination_id",
        Text,
        nullable=False,
        server_default="",
        comment="ID in the files; the name, where the client sent no ID",
    ),
    Index(None, "workspace_id", "started_at"),
    Index(None, "workspace_id", "destination_id", "started_at"),
)
