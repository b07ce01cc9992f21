"""Tables of accepted and quarantined events on their way to the warehouse."""

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from penstock.metadb.tables.base import AutoId, metadata, required, workspace_id

event_keys = Table(
    "event_keys",
    metadata,
    # PostgreSQL stores columns in this order, without gaps between them.
    required("number", BigInteger, comment="milliseconds of the commit, and position in it"),
    Column("body", BigInteger, comment="hash of the content; null once the visitor was deleted"),
    Column(
        "key_high",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        comment="keyed hash of (website, route family, the client's ID): the first 8 bytes",
    ),
    Column("key_low", BigInteger, primary_key=True, autoincrement=False),
    required("origin", Integer, comment="number of a row in event_origins"),
    Column("visitor", LargeBinary, comment="packed ID; null once the visitor was deleted"),
    Column(
        "event_id",
        LargeBinary,
        comment="packed ID of an event of an earlier version; null: it follows from key and number",
    ),
    sqlite_with_rowid=False,
)

event_origins = Table(
    "event_origins",
    metadata,
    Column("number", AutoId, primary_key=True, autoincrement=True),
    required("scope_tag", BigInteger, comment="hash of the visitors' identity scope"),
    Column("import_id", Text, comment="the import that stored the events"),
    Index(None, "scope_tag", "import_id"),
)

event_key_secrets = Table(
    "event_key_secrets",
    metadata,
    Column(
        "id",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="always 1: there is one row",
    ),
    required("secret", Text, comment="sealed; keys the hashes in event_keys"),
)

# Keys that versions before 0.4 stored. A worker moves them to event_keys.
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
    required(
        "key", LargeBinary, unique=True, comment="hash of (website, route family, the client's ID)"
    ),
    required("body_hash", LargeBinary),  # detects a repeat with different content
    required("event_id", Text),
    Column("visitor_id", Text, comment="null once the visitor was deleted"),
    required("scope_tag", BigInteger, comment="hash of the visitor's identity scope"),
    required("created_at", BigInteger),
    Column("import_id", Text, comment="the import that stored the event"),
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
    required("ahead_ms", BigInteger, comment="the device's clock minus the server's"),
    required(
        "confirmed_at",
        BigInteger,
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
    required("events", BigInteger, comment="new ones that count for the quota"),
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
    required("events", BigInteger, comment="events that clients dropped before they could be sent"),
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    required(
        "target",
        Text,
        comment="the warehouse table: events, visitor_aliases, visitor_traits or clicks",
    ),
    required(
        "lines", Text, comment="rows of one commit as the warehouse takes them, a JSON object each"
    ),
    Column("shipment_id", BigInteger, index=True, comment="set once it is cut into a shipment"),
    Column("put_at", BigInteger, comment="unset: before this column existed"),
    sqlite_autoincrement=True,
)

shipments = Table(
    "shipments",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    required("target", Text),  # the warehouse table
    # time when its rows were selected from the outbox
    required("cut_at", BigInteger),
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
    required("stored", BigInteger, comment="rows of events that were shipped"),
    required(
        "removed",
        BigInteger,
        comment="rows of events that deletions removed, counted before they begin",
    ),
    required("shipment", BigInteger, comment="the highest number of shipments"),
)

losses = Table(
    "losses",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    required("found_at", BigInteger, comment="when events that were stored before were missing"),
    required(
        "rows",
        BigInteger,
        comment="of events that are missing; 0: the metadata database lost its newest entries",
    ),
    Column("accepted_at", BigInteger, comment="unset: what the last comparison found"),
    sqlite_autoincrement=True,
)

event_counts = Table(
    "event_counts",
    metadata,
    Column("website_id", Text, primary_key=True),
    required(
        "received",
        BigInteger,
        comment="events answered: stored + duplicates + refused + quarantined + waiting",
    ),
    required("stored", BigInteger, comment="in the warehouse"),
    required("duplicates", BigInteger),  # repeats of stored events
    required("refused", BigInteger, comment="by the intake"),
    required("quarantined", BigInteger, comment="accepted, refused by the warehouse"),
    required("waiting", BigInteger, comment="in the outbox"),
    required(
        "dropped", BigInteger, comment="refused or quarantined events that are no longer kept"
    ),
    required(
        "lost_on_devices",
        BigInteger,
        server_default="0",
        comment="events that clients dropped before they could be sent",
    ),
    required(
        "newest_number",
        BigInteger,
        server_default="0",
        comment="of its accepted events, as in event_keys",
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
    required("at", BigInteger),
    required("reason", Text, comment="refused or unshippable"),
    required("origin", Text, comment="the route, or the warehouse table"),
    required("code", Text),  # error code of the refusal
    required("bytes", Integer, comment="of the texts below"),
    required("errors", JSON),  # faults: field, code, message
    required("sender", JSON, comment="what the content was read with"),
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
