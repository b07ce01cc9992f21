"""Tables of imports, deletions and exports."""

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
    false,
)

from penstock.metadb.tables.base import metadata, named_records, required, workspace_id

imports = Table(
    "imports",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text, ForeignKey("websites.id")),
    required(
        "state", Text, comment="queued, running, done or failed"
    ),  # imports can also be `checking`, `checked` and `cancelled`
    required("format", Text, server_default="ndjson"),
    Column("file_name", Text),
    required("sha256", Text, comment="of the file as it was sent, in hex"),
    required("bytes_total", BigInteger),
    required("bytes_read", BigInteger),
    required("lines_read", BigInteger),
    # Line counts:
    required("accepted", BigInteger),
    required("duplicates", BigInteger),
    required("rejected", BigInteger),
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
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("gap_dismissed_at", BigInteger, comment="an owner judged the gap harmless"),
    Column("gap_dismissed_by", Text, comment="ID of the user who did"),
    Column("warnings", JSON, comment="codes of the warnings about its events; unset: none"),
    Column("warning_lines", JSON, comment="lines with each warning, by its code; unset: none"),
    required(
        "empty_lines", BigInteger, server_default="0", comment="skipped lines, among those read"
    ),
    required(
        "identify_lines",
        BigInteger,
        server_default="0",
        comment="lines that link visitors to a user, without an event",
    ),
    required(
        "ignored_lines",
        BigInteger,
        server_default="0",
        comment="lines with nothing that Penstock stores",
    ),
    required(
        "identity_conflicts",
        BigInteger,
        server_default="0",
        comment="lines whose visitor belongs to another user",
    ),
    required(
        "accepts_stored_events",
        Boolean,
        server_default=false(),
        comment="its sender had the permission manage",
    ),
    Column("mapping", JSON, comment="uses of the file's columns; unset: its own fields"),
    Column("sent_by", Text, comment="ID of the key or user; unset: not known"),
    required(
        "revision", BigInteger, server_default="1", comment="rises with each change of the mapping"
    ),
    Column("timezone", Text, comment="of times without an offset; unset: UTC"),
    required("is_undoable", Boolean, server_default=false(), comment="what it stored has its ID"),
    Index(None, "workspace_id", "created_at"),
    Index(None, "website_id", "created_at"),
    Index(None, "state"),
)

import_mappings = named_records(
    "import_mappings",
    required("mapping", JSON),  # the API's format
    required("columns_sha256", Text, comment="of the sorted names of its columns"),
    required("revision", Integer, comment="from 1; rises with each change"),
    Index(None, "workspace_id", "columns_sha256"),
)

import_summaries = Table(
    "import_summaries",
    metadata,
    Column("import_id", Text, ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True),
    required("summary", JSON, comment="as the API returns it"),
)

import_duplicates = Table(
    "import_duplicates",
    metadata,
    Column("import_id", Text, ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "other_id",
        Text,
        ForeignKey("imports.id", ondelete="CASCADE"),
        primary_key=True,
        index=True,
        comment="the later import",
    ),
    required("lines", BigInteger, comment="of the later import, not stored again"),
)

import_rejects = Table(
    "import_rejects",
    metadata,
    Column("import_id", Text, ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True),
    Column("line", BigInteger, primary_key=True, comment="from 1"),
    required("errors", JSON),  # faults: field, code, message
    Column("line_text", Text, comment="beginning of the line as sent, redacted"),
)

deletions = Table(
    "deletions",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text, ForeignKey("websites.id")),
    required("scope_id", Text, comment="the website's identity scope"),
    required("target", Text, comment="visitor, user, span or retention"),
    Column("visitor_id", Text, comment="as asked for; null once done"),
    Column("user_id", Text, comment="as asked for; null once done"),
    Column("from_at", BigInteger, comment="of a span: the first millisecond"),
    Column("to_at", BigInteger, comment="of a span: the first millisecond after it"),
    Column("kind", Text, comment="of retention: the kind of event"),
    required(
        "visitor_ids", JSON, comment="the canonical visitor and all it absorbed; empty once done"
    ),
    required(
        "open_imports", JSON, comment="IDs of the imports that were not done when it was asked for"
    ),
    required("outbox_id", BigInteger, comment="the newest bundle when it was asked for"),
    required("merge_id", BigInteger, comment="the newest merge that was removed"),
    required("key_id", BigInteger, comment="the newest dedupe key when it was asked for"),
    required("keys_read", BigInteger, comment="dedupe keys are gone through up to this one"),
    required("state", Text, comment="queued, running or done"),
    Column("step", Text, comment="what is done now or next; null once done"),
    required("visitors", BigInteger, comment="removed"),
    required("user_links", BigInteger, comment="removed"),
    Column("events_found", BigInteger, comment="null until they are counted"),
    required("events_removed", BigInteger),
    # Number of dedupe keys that lost the visitor's ID.
    required("keys_cleared", BigInteger),
    Column("removed", JSON, comment="counts by store and kind of data"),
    Column("error", Text, comment="why it waits at the moment"),
    required(
        "created_at", BigInteger, comment="when it was asked for: what was received later stays"
    ),
    required("updated_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("import_id", Text, index=True, comment="of an undone import: its ID"),
    required(
        "newest_number",
        BigInteger,
        server_default="0",
        comment="the highest number in event_keys when it was asked for",
    ),
    Column("keys_up_to", BigInteger, comment="event_keys are gone through up to this key_high"),
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
    required("destination", Text, comment="folder or bucket, named by the client"),
    required("file_format", Text),
    required("exported_by", Text, comment="e-mail address or name of the key"),
    Column("first_day", Text, comment="first day of events that it read, in UTC"),
    Column("last_day", Text),
    required("started_at", BigInteger),
    Column("finished_at", BigInteger),
    required(
        "destination_id",
        Text,
        server_default="",
        comment="ID in the files; the name, where the client sent no ID",
    ),
    Index(None, "workspace_id", "started_at"),
    Index(None, "workspace_id", "destination_id", "started_at"),
)
