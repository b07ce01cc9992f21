"""All tables of the metadata DB. Times are milliseconds since 1970-01-01 UTC, and IDs are opaque
text.

The indexes that queries need are defined here. Migrations create exactly these tables; a test
compares both, including the comments that PostgreSQL stores. Comments in Python can change without
a migration.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

AutoId = BigInteger().with_variant(Integer, "sqlite")
"""Type of generated row numbers. SQLite generates them only in a column of type INTEGER."""


def _workspace() -> Column[str]:
    return Column("workspace_id", Text, ForeignKey("workspaces.id"), nullable=False)


# Accounts ----------------------------------------------------------------------------------------

installation = Table(
    "installation",
    metadata,
    Column(
        "number",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="always 1: there is one row",
    ),
    Column("id", Text, nullable=False, comment="names this installation in shipment tokens"),
    Column(
        "track_split_at",
        BigInteger,
        comment="until then, posts to /api/track with and without a key shared dedupe keys",
    ),
)

setup_tokens = Table(
    "setup_tokens",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token"),
    Column("created_at", BigInteger, nullable=False),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("query_timeout_s", Double, comment="unset: the operator's"),
    Column("query_memory_bytes", BigInteger, comment="unset: the operator's"),
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("email", Text, nullable=False, unique=True, comment="lower case"),
    Column("password_hash", Text, nullable=False, comment="argon2id"),
    Column("created_at", BigInteger, nullable=False),
    Column("email_confirmed_at", BigInteger, comment="unset: anyone may have signed up with it"),
)

email_confirmations = Table(
    "email_confirmations",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the URL"),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

known_networks = Table(
    "known_networks",
    metadata,
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "network_hash",
        LargeBinary,
        primary_key=True,
        comment="keyed hash of the network of a log-in",
    ),
    Column("last_log_in_at", BigInteger, nullable=False),
)

memberships = Table(
    "memberships",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    Column("user_id", Text, ForeignKey("users.id"), primary_key=True, index=True),
    Column("role", Text, nullable=False, comment="owner or member"),
    Column("created_at", BigInteger, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    Column("id", Text, nullable=False, unique=True, comment="names the session to its user"),
    Column("user_id", Text, ForeignKey("users.id"), nullable=False, index=True),
    Column(
        "workspace_id",
        Text,
        ForeignKey("workspaces.id"),
        nullable=False,
        comment="the one that its user works in at the moment",
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False, comment="to the hour"),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

second_factors = Table(
    "second_factors",
    metadata,
    Column("id", Text, primary_key=True),
    Column(
        "user_id",
        Text,
        ForeignKey("users.id", ondelete="CASCADE"),
        nullable=False,
        unique=True,
    ),
    Column("secret", Text, nullable=False, comment="encrypted: codes are computed with it"),
    Column("created_at", BigInteger, nullable=False),
    Column("confirmed_at", BigInteger, comment="unset: log-in does not ask for it yet"),
    Column("last_step", BigInteger, comment="time step of the last accepted code"),
)

recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("code_hash", LargeBinary, primary_key=True, comment="SHA-256 of the code"),
)

pending_log_ins = Table(
    "pending_log_ins",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("wrong_codes", Integer, nullable=False, comment="it ends with the fifth"),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

password_resets = Table(
    "password_resets",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the URL"),
    Column("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column(
        "is_mailed",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="whether only the mail to the user has the token",
    ),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("email", Text, nullable=False, comment="lower case"),
    Column("role", Text, nullable=False, comment="owner or member"),
    Column(
        "token_hash",
        LargeBinary,
        nullable=False,
        unique=True,
        comment="SHA-256 of the token in the URL",
    ),
    Column(
        "mailed_token_hash",
        LargeBinary,
        unique=True,
        index=True,
        comment="SHA-256 of the longer token, which only the mail has; unset: not mailed",
    ),
    Column(
        "invited_by", Text, nullable=False, comment="the e-mail address of the member who invited"
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "email"),
    Index(None, "workspace_id", "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("name", Text, nullable=False),
    Column("key_hash", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the key"),
    Column(
        "prefix", Text, nullable=False, comment="first characters of the key, to recognise it by"
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("scopes", Text, comment="ingest, read, manage, separated by blanks; unset: all"),
    Column("website_id", Text, comment="the only one that it is for; unset: all"),
    Column("expires_at", BigInteger, comment="unset: never"),
    Column("created_by", Text, comment="ID of the user who created it"),
    Column("created_by_email", Text, comment="their e-mail address then"),
    Index(None, "workspace_id", "created_at"),
    Index(None, "workspace_id", "created_by"),
)

websites = Table(
    "websites",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False, comment="web or mobile"),
    Column("domain", Text),
    Column(
        "identity_scope",
        Text,
        comment="a name shared by the websites of one scope; unset: the website is its own",
    ),
    Column(
        "scope_id",
        Text,
        nullable=False,
        comment="the identity scope that visitors and user links belong to",
    ),
    Column(
        "requires_signed_identities",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="whether identify without a key needs a signature",
    ),
    Column(
        "app",
        JSON,
        nullable=False,
        comment="what a mobile app carries: bundle, package, store URLs",
    ),
    Column("retention_days", JSON, comment="days by kind of event; unset: all are kept"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    Index(None, "workspace_id", "created_at"),
    Index(None, "kind", "created_at"),
)

identity_secrets = Table(
    "identity_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False, index=True),
    Column("secret", Text, nullable=False, comment="encrypted: signatures are computed with it"),
    Column("created_at", BigInteger, nullable=False),
    Column("valid_until", BigInteger, comment="set once another took its place"),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    _workspace(),
    Column("at", BigInteger, nullable=False, index=True, comment="the oldest go after a year"),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False, comment="e-mail address or name of the key, then"),
    Column("actor_id", Text, nullable=False, comment="ID of the user or the key"),
    Column("target", Text, nullable=False, comment="what it concerned: an ID, and a name"),
    Index(None, "workspace_id", "at"),
    sqlite_autoincrement=True,
)

# Definitions -------------------------------------------------------------------------------------

goals = Table(
    "goals",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
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
    _workspace(),
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
    _workspace(),
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
    _workspace(),
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

# Identity ----------------------------------------------------------------------------------------

saved_cohorts = Table(
    "saved_cohorts",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False, comment="list or rule"),
    Column("funnel_id", Text, nullable=False, comment="the funnel may have been deleted since"),
    Column("parameters", JSON, nullable=False),  # query parameters of a list of units
    Column("visitors", Integer, comment="number of visitors of a list; unset for a rule"),
    Column("is_complete", Boolean, nullable=False, comment="false while a list is being saved"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    Index(None, "workspace_id", "created_at"),
)

cohort_visitors = Table(
    "cohort_visitors",
    metadata,
    Column("cohort_id", Text, ForeignKey("saved_cohorts.id", ondelete="CASCADE"), primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True, comment="canonical when the list was saved"),
    Column(
        "visitor_key",
        BigInteger,
        nullable=False,
        comment="key in the event store, an unsigned number, stored as a signed one",
    ),
    Index(None, "scope_id", "visitor_id"),
    sqlite_with_rowid=False,
)

visitors = Table(
    "visitors",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True),
    Column(
        "canonical_id",
        Text,
        nullable=False,
        comment="itself, or the visitor that it was merged into; never a chain",
    ),
    Column("user_id", Text, comment="the user that the canonical visitor is linked to"),
    Column("trust", Integer, comment="of the claim that gave it this user; unset: as a backend's"),
    Column("created_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

user_links = Table(
    "user_links",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("visitor_id", Text, nullable=False, comment="canonical"),
    Column("trust", Integer, comment="of the claim that linked them; unset: as a backend's"),
    Column("traits", JSON, comment="what identify last said of the user"),
    Column("traits_trust", Integer, comment="of that call; unset: as a backend's"),
    Column("created_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

merges = Table(
    "merges",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    Column("scope_id", Text, nullable=False),
    Column("absorbed_id", Text, nullable=False),  # the visitor that was merged into kept_id
    Column("kept_id", Text, nullable=False),  # the canonical visitor after the merge
    Column("user_id", Text, nullable=False),  # the user that both visitors were identified as
    Column("merged_at", BigInteger, nullable=False),
    Index(None, "scope_id", "kept_id", "id"),
    Index(None, "scope_id", "absorbed_id"),
    sqlite_autoincrement=True,
)

open_releases = Table(
    "open_releases",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column(
        "visitor_id",
        Text,
        primary_key=True,
        comment="visitors that it has absorbed are on their own from now on, whatever they say",
    ),
    Column("user_id", Text, nullable=False, comment="whose claim released them"),
    Column("is_deletion", Boolean, nullable=False, comment="their rows are removed"),
    Column("created_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Intake ------------------------------------------------------------------------------------------

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
    _workspace(),
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

# Providers ---------------------------------------------------------------------------------------

provider_secrets = Table(
    "provider_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False),
    Column("provider", Text, nullable=False, comment="stripe, polar or standardwebhooks"),
    Column("secret", Text, nullable=False, comment="encrypted: signatures are computed with it"),
    Column("created_at", BigInteger, nullable=False),
    Column("valid_until", BigInteger, comment="set once another took its place"),
    Index(None, "workspace_id", "website_id", "provider"),
)

provider_customers = Table(
    "provider_customers",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column(
        "key",
        LargeBinary,
        primary_key=True,
        comment="hash of the provider's customer ID or of an e-mail address",
    ),
    Column(
        "visitor_id",
        Text,
        nullable=False,
        comment="whom the newest event that named a visitor said this customer is",
    ),
    Column("occurred_at", BigInteger, nullable=False, comment="of that event"),
    Index(None, "scope_id", "visitor_id"),
    sqlite_with_rowid=False,
)

# Managed links -----------------------------------------------------------------------------------

links = Table(
    "links",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False),
    Column(
        "slug",
        Text,
        nullable=False,
        unique=True,
        comment="one space for all workspaces: it is the public address",
    ),
    Column("name", Text, nullable=False, comment="internal, never shown"),
    Column("destination_path", Text, nullable=False),
    Column("fallback_url", Text),
    Column("utm_source", Text),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    Column("expires_at", BigInteger, comment="from then on it leads to expired_url; unset: never"),
    Column("expired_url", Text, comment="unset: an expired link is not found"),
    Column(
        "revision",
        Integer,
        nullable=False,
        server_default="1",
        comment="number of the newest row of link_revisions",
    ),
    Column(
        "search_text",
        Text,
        nullable=False,
        comment="name, slug and tags in folded letter case, a line each",
    ),
    Column("is_active", Boolean, nullable=False),
    Column(
        "is_archived",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="works, but lists leave it out",
    ),
    Column(
        "pass_query",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="whether the fallback URL gets the query of the visit",
    ),
    Column(
        "unstored_clicks",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="clicks over the quota, which are not stored",
    ),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index(None, "workspace_id", "created_at"),
    Index(None, "workspace_id", "website_id", "created_at"),
)

link_revisions = Table(
    "link_revisions",
    metadata,
    Column("link_id", Text, ForeignKey("links.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="from 1"),
    Column("at", BigInteger, nullable=False, comment="since when it holds"),
    Column("name", Text, nullable=False),
    Column("destination_path", Text, nullable=False),
    Column("fallback_url", Text),
    Column("utm_source", Text),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    Column("expires_at", BigInteger),
    Column("expired_url", Text),
    sqlite_with_rowid=False,
)

link_tags = Table(
    "link_tags",
    metadata,
    Column("link_id", Text, ForeignKey("links.id"), primary_key=True),
    Column("tag", Text, primary_key=True, comment="in lower case"),
    _workspace(),
    Index(None, "workspace_id", "tag", "link_id"),
    sqlite_with_rowid=False,
)

link_clicks = Table(
    "link_clicks",
    metadata,
    Column("click_id", Text, primary_key=True, comment="as in the warehouse"),
    Column("website_id", Text, nullable=False),
    Column("link_id", Text, nullable=False),
    Column(
        "link_revision",
        Integer,
        nullable=False,
        server_default="1",
        comment="of the link as it was then",
    ),
    Column(
        "token_hash", LargeBinary, unique=True, comment="SHA-256; unset: the page carried no token"
    ),
    Column("clicked_at", BigInteger, nullable=False),
    Column("platform", Text, nullable=False, comment="ios or android"),
    Column("os_major", Integer, nullable=False, comment="0: unknown"),
    Column("match_key", LargeBinary, comment="HMAC of the network; removed after an hour"),
    Column("match_until", BigInteger, index=True, comment="when match_key is removed"),
    Column("utm_source", Text, comment="of the link as it was then"),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    Column("claimed_at", BigInteger),  # time when an app open was matched to the click
    Column("claimed_by", Text, comment="install ID; empty once its visitor was deleted"),
    Column("claim_method", Text),  # how the app open was matched, such as network
    Column("expires_at", BigInteger, nullable=False, index=True, comment="when the row is removed"),
    Index(None, "website_id", "match_key"),
)

match_keys = Table(
    "match_keys",
    metadata,
    Column(
        "period",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        comment="number of the ten minutes whose clicks it is for",
    ),
    Column("key", LargeBinary, nullable=False, comment="of the HMAC of networks"),
    Column(
        "expires_at",
        BigInteger,
        nullable=False,
        comment="when the row is removed: none of its clicks can be matched any more",
    ),
)

link_matches = Table(
    "link_matches",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("website_id", Text, nullable=False),
    Column("link_id", Text, comment="unset: the open concerned no link"),
    Column(
        "link_revision",
        Integer,
        nullable=False,
        server_default="1",
        comment="of the link that the app was led by",
    ),
    Column("click_id", Text),  # unset if no click matched
    Column(
        "at", BigInteger, nullable=False, index=True, comment="the oldest are removed after 90 days"
    ),
    Column("matched", Boolean, nullable=False),
    Column("method", Text, comment="which found the link, also where it was refused"),
    Column("confidence", Double),  # 1 if certain; unset if there is no match
    Column("reason", Text, comment="why there is no match"),
    Column("platform", Text, nullable=False),
    Column("os_version", Text),
    Column("app_version", Text),
    # Whether the app reported the first open of the install.
    Column("first_open", Boolean, nullable=False),
    Column("clicked_at", BigInteger),  # time of the click, whose row may have been deleted by now
    Column("install_id", Text, comment="null once the visitor was deleted"),
    Column("scope_id", Text, nullable=False),
    Column("visitor_id", Text, comment="as the app named it; null once the visitor was deleted"),
    Index(None, "workspace_id", "at"),
    Index(None, "workspace_id", "website_id", "at"),
    Index(None, "link_id", "at"),
    Index(None, "website_id", "install_id"),
    Index(None, "scope_id", "visitor_id"),
)

visitor_touches = Table(
    "visitor_touches",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column(
        "visitor_id",
        Text,
        primary_key=True,
        comment="canonical when it was written; a merge moves nothing",
    ),
    Column("touch", Text, primary_key=True, comment="first or last"),
    Column("at", BigInteger, nullable=False),
    Column("link_id", Text, nullable=False),
    Column("utm_source", Text),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    sqlite_with_rowid=False,
)

# Imports -----------------------------------------------------------------------------------------

imports = Table(
    "imports",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
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
    Index(None, "workspace_id", "created_at"),
    Index(None, "website_id", "created_at"),
    Index(None, "state"),
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
    _workspace(),
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

# Exports -----------------------------------------------------------------------------------------

exports = Table(
    "exports",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("destination", Text, nullable=False, comment="folder or bucket, named by the client"),
    Column("file_format", Text, nullable=False),
    Column("exported_by", Text, nullable=False, comment="e-mail address or name of the key"),
    Column("first_day", Text, comment="first day of events that it read, in UTC"),
    Column("last_day", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Index(None, "workspace_id", "started_at"),
    Index(None, "workspace_id", "destination", "started_at"),
)

# Jobs --------------------------------------------------------------------------------------------

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    _workspace(),
    Column("request", Text, nullable=False, comment="method and path of what it answers"),
    Column("state", Text, nullable=False, comment="queued, running, done, failed or cancelled"),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger, comment="unset: it is queued"),
    Column("finished_at", BigInteger),
    Column(
        "alive_at",
        BigInteger,
        nullable=False,
        comment="when its node last worked on it: an old time says that the node is gone",
    ),
    Column("rows_read", BigInteger, nullable=False),
    Column("rows_to_read", BigInteger, nullable=False, comment="estimated"),
    Column("status", Integer, comment="of the response; unset: there is none"),
    Column("media_type", Text, comment="of the response"),
    Column("headers", JSON, comment="of the response"),
    Column("bytes", BigInteger, nullable=False, comment="length of the response"),
    Index(None, "workspace_id", "created_at"),
    Index(None, "alive_at"),
)

job_responses = Table(
    "job_responses",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False, comment="from 0"),
    Column("content", LargeBinary, nullable=False),
)

# Stored outcomes ---------------------------------------------------------------------------------

outcome_claims = Table(
    "outcome_claims",
    metadata,
    Column("outcome", Text, primary_key=True),
    Column(
        "number",
        BigInteger,
        nullable=False,
        comment="of the last change that began; the mark that ends it has the same",
    ),
    Column("is_open", Boolean, nullable=False, comment="the change has not ended"),
    Column("build", Text, nullable=False, comment="that the change makes; empty: it makes none"),
    Column("opened_at", BigInteger, nullable=False),
    Column(
        "read_until", BigInteger, nullable=False, comment="rows know no event that occurs later"
    ),
    Column("dropped_until", BigInteger, nullable=False, comment="nobody builds it until then"),
)
