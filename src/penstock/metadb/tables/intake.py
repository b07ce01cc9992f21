"""Tables of accepted and quarantined events on their way to the warehouse."""

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from penstock.metadb.tables.base import AutoId, metadata, workspace_id

dedupe_keys = Table(
    "dedupe_keys",
    metadata,
    Column(
        "id",
        AutoId,
        primary_key=True,
        autoincrement=True,
        comment="in the order of use; the oldest are forgotten first",
    ),
    Column(
        "key",
        LargeBinary,
        nullable=False,
        unique=True,
        comment="hash of (website, route family, the client's ID)",
    ),
    Column("body_hash", LargeBinary, nullable=False),  # detects a repeat with different content
    Column("event_id", Text, nullable=False),
    Column("visitor_id", Text, comment="null once the visitor was deleted"),
    Column("scope_tag", BigInteger, nullable=False, comment="hash of the visitor's identity scope"),
    Column("created_at", BigInteger, nullable=False),
)

device_clocks = Table(
    "device_clocks",
    metadata,
    Column(
        "device",
        LargeBinary,
        primary_key=True,
        comment="hash of (identity scope, visitor ID as sent)",
    ),
    Column("ahead_ms", BigInteger, nullable=False, comment="the device's clock minus the server's"),
    Column(
        "confirmed_at",
        BigInteger,
        nullable=False,
        index=True,
        comment="when a request last agreed; forgotten a day later",
    ),
    sqlite_with_rowid=False,
)

daily_events = Table(
    "daily_events",
    metadata,
    Column("website_id", Text, primary_key=True),
    Column(
        "day",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="since 1970-01-01 UTC",
    ),
    Column("events", BigInteger, nullable=False, comment="new ones that count for the quota"),
    sqlite_with_rowid=False,
)

lost_events = Table(
    "lost_events",
    metadata,
    Column("website_id", Text, primary_key=True),
    Column(
        "day",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="when clients said so, since 1970-01-01 UTC",
    ),
    Column(
        "events",
        BigInteger,
        nullable=False,
        comment="events that clients dropped before they could be sent",
    ),
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    Column(
        "target",
        Text,
        nullable=False,
        comment="the warehouse table: events, visitor_aliases, visitor_traits or clicks",
    ),
    Column(
        "lines",
        Text,
        nullable=False,
        comment="rows of one commit as the warehouse takes them, a JSON object each",
    ),
    Column("shipment_id", BigInteger, index=True, comment="set once it is cut into a shipment"),
    Column("put_at", BigInteger, comment="unset: before this column existed"),
    sqlite_autoincrement=True,
)

shipments = Table(
    "shipments",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    Column("target", Text, nullable=False),  # the warehouse table
    # time when its rows were selected from the outbox
    Column("cut_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

event_ledger = Table(
    "event_ledger",
    metadata,
    Column(
        "number",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="always 1: there is one row",
    ),
    Column("stored", BigInteger, nullable=False, comment="rows of events that were shipped"),
    Column(
        "removed",
        BigInteger,
        nullable=False,
        comment="rows of events that deletions removed, counted before they begin",
    ),
    Column("shipment", BigInteger, nullable=False, comment="the highest number of shipments"),
)

losses = Table(
    "losses",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    Column(
        "found_at",
        BigInteger,
        nullable=False,
        comment="when events that were stored before were missing",
    ),
    Column(
        "rows",
        BigInteger,
        nullable=False,
        comment="of events that are missing; 0: the metadata database lost its newest entries",
    ),
    Column("accepted_at", BigInteger, comment="unset: what the last comparison found"),
    sqlite_autoincrement=True,
)

event_counts = Table(
    "event_counts",
    metadata,
    Column("website_id", Text, primary_key=True),
    Column(
        "received",
        BigInteger,
        nullable=False,
        comment="events answered: stored + duplicates + refused + quarantined + waiting",
    ),
    Column("stored", BigInteger, nullable=False, comment="in the warehouse"),
    Column("duplicates", BigInteger, nullable=False),  # repeats of stored events
    Column("refused", BigInteger, nullable=False, comment="by the intake"),
    Column("quarantined", BigInteger, nullable=False, comment="accepted, refused by the warehouse"),
    Column("waiting", BigInteger, nullable=False, comment="in the outbox"),
    Column(
        "dropped",
        BigInteger,
        nullable=False,
        comment="refused or quarantined events that are no longer kept",
    ),
    Column(
        "lost_on_devices",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="events that clients dropped before they could be sent",
    ),
)

property_keys = Table(
    "property_keys",
    metadata,
    Column("website_id", Text, primary_key=True),
    Column("key_hash", BigInteger, primary_key=True, autoincrement=False),  # hash of a property key
    sqlite_with_rowid=False,
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    workspace_id(),
    Column("website_id", Text, comment="unset: it names no website of the workspace"),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False, comment="refused or unshippable"),
    Column("origin", Text, nullable=False, comment="the route, or the warehouse table"),
    Column("code", Text, nullable=False),  # error code of the refusal
    Column("bytes", Integer, nullable=False, comment="of the texts below"),
    Column("errors", JSON, nullable=False),  # faults: field, code, message
    Column("sender", JSON, nullable=False, comment="what the content was read with"),
    Column("content", Text, comment="the item as sent, or the row; unset: it cannot be kept"),
    Index(None, "workspace_id", "website_id"),
    sqlite_autoincrement=True,
)

click_buffer_files = Table(
    "click_buffer_files",
    metadata,
    Column(
        "name",
        Text,
        primary_key=True,
        comment="a file of the click buffer whose rows are in the outbox, until the file is gone",
    ),
)
