"""Tables of what payment and CRM providers send."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, Table, Text

from penstock.metadb.tables.base import metadata, workspace_id

provider_secrets = Table(
    "provider_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
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
