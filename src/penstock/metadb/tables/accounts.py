"""Tables of the installation, its workspaces and websites, and of who may use them."""

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
    Table,
    Text,
    UniqueConstraint,
    false,
)

from penstock.metadb.tables.base import AutoId, metadata, required, workspace_id

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
    required("id", Text, comment="names this installation in shipment tokens"),
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
    required("created_at", BigInteger),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Text, primary_key=True),
    required("name", Text),
    required("created_at", BigInteger),
    Column("query_timeout_s", Double, comment="unset: the operator's"),
    Column("query_memory_bytes", BigInteger, comment="unset: the operator's"),
    Column("person_trait", Text, comment="trait that names people; unset: by their user ID"),
    required(
        "shared_contents",
        Text,
        server_default="figures",
        comment="what may leave the dashboard: figures or units",
    ),
    required(
        "shared_properties",
        JSON,
        server_default="[]",
        comment="properties whose values may leave the dashboard",
    ),
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    required("email", Text, unique=True, comment="lower case"),
    required("password_hash", Text, comment="argon2id"),
    required("created_at", BigInteger),
    Column("email_confirmed_at", BigInteger, comment="unset: anyone may have signed up with it"),
)

email_confirmations = Table(
    "email_confirmations",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the URL"),
    required("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    required("expires_at", BigInteger, index=True),
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
    required("last_log_in_at", BigInteger),
)

memberships = Table(
    "memberships",
    metadata,
    Column("workspace_id", Text, ForeignKey("workspaces.id"), primary_key=True),
    Column("user_id", Text, ForeignKey("users.id"), primary_key=True, index=True),
    required("role", Text, comment="owner, member or viewer"),
    required("created_at", BigInteger),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    required("id", Text, unique=True, comment="names the session to its user"),
    required("user_id", Text, ForeignKey("users.id"), index=True),
    required(
        "workspace_id",
        Text,
        ForeignKey("workspaces.id"),
        comment="the one that its user works in at the moment",
    ),
    required("created_at", BigInteger),
    required("last_seen_at", BigInteger, comment="to the hour"),
    required("expires_at", BigInteger, index=True),
)

second_factors = Table(
    "second_factors",
    metadata,
    Column("id", Text, primary_key=True),
    required("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), unique=True),
    required("secret", Text, comment="encrypted: codes are computed with it"),
    required("created_at", BigInteger),
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
    required("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    required("wrong_codes", Integer, comment="it ends with the fifth"),
    required("expires_at", BigInteger, index=True),
)

password_resets = Table(
    "password_resets",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the URL"),
    required("user_id", Text, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    required("expires_at", BigInteger, index=True),
    required(
        "is_mailed",
        Boolean,
        server_default=false(),
        comment="whether only the mail to the user has the token",
    ),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("email", Text, comment="lower case"),
    required("role", Text, comment="owner, member or viewer"),
    required("token_hash", LargeBinary, unique=True, comment="SHA-256 of the token in the URL"),
    Column(
        "mailed_token_hash",
        LargeBinary,
        unique=True,
        index=True,
        comment="SHA-256 of the longer token, which only the mail has; unset: not mailed",
    ),
    required("invited_by", Text, comment="the e-mail address of the member who invited"),
    required("created_at", BigInteger),
    required("expires_at", BigInteger),
    UniqueConstraint("workspace_id", "email"),
    Index(None, "workspace_id", "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("name", Text),
    required("key_hash", LargeBinary, unique=True, comment="SHA-256 of the key"),
    required("prefix", Text, comment="first characters of the key, to recognise it by"),
    required("created_at", BigInteger),
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
    workspace_id(),
    required("name", Text),
    required("kind", Text, comment="web or mobile"),
    Column("domain", Text),
    Column(
        "identity_scope",
        Text,
        comment="a name shared by the websites of one scope; unset: the website is its own",
    ),
    required("scope_id", Text, comment="the identity scope that visitors and user links belong to"),
    required(
        "requires_signed_identities",
        Boolean,
        server_default=false(),
        comment="whether identify without a key needs a signature",
    ),
    required("app", JSON, comment="what a mobile app carries: bundle, package, store URLs"),
    Column("retention_days", JSON, comment="days by kind of event; unset: all are kept"),
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Column("deleted_at", BigInteger),
    Index(None, "workspace_id", "created_at"),
    Index(None, "kind", "created_at"),
)

identity_secrets = Table(
    "identity_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text, ForeignKey("websites.id"), index=True),
    required("secret", Text, comment="encrypted: signatures are computed with it"),
    required("created_at", BigInteger),
    Column("valid_until", BigInteger, comment="set once another took its place"),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    workspace_id(),
    required("at", BigInteger, index=True, comment="the oldest go after a year"),
    required("action", Text),
    required("actor", Text, comment="e-mail address or name of the key, then"),
    required("actor_id", Text, comment="ID of the user or the key"),
    required("target", Text, comment="what it concerned: an ID, and a name"),
    Index(None, "workspace_id", "at"),
    sqlite_autoincrement=True,
)
