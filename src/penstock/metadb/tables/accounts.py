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

from penstock.metadb.tables.base import AutoId, metadata, workspace_id

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
    workspace_id(),
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
    workspace_id(),
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
    workspace_id(),
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
    workspace_id(),
    Column("website_id", Text, ForeignKey("websites.id"), nullable=False, index=True),
    Column("secret", Text, nullable=False, comment="encrypted: signatures are computed with it"),
    Column("created_at", BigInteger, nullable=False),
    Column("valid_until", BigInteger, comment="set once another took its place"),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    workspace_id(),
    Column("at", BigInteger, nullable=False, index=True, comment="the oldest go after a year"),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False, comment="e-mail address or name of the key, then"),
    Column("actor_id", Text, nullable=False, comment="ID of the user or the key"),
    Column("target", Text, nullable=False, comment="what it concerned: an ID, and a name"),
    Index(None, "workspace_id", "at"),
    sqlite_autoincrement=True,
)
