"""Tables of payment and CRM providers: their secrets and their customers."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, Table, Text

from penstock.metadb.tables.base import metadata, required, workspace_id

provider_secrets = Table(
    "provider_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text, ForeignKey("websites.id")),
    required("provider", Text, comment="stripe, polar or standardwebhooks"),
    required("secret", Text, comment="encrypted: signatures are computed with it"),
    required("created_at", BigInteger),
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
    required(
        "visitor_id",
        Text,
        comment="whom the newest event that named a visitor said this customer is",
    ),
    required("occurred_at", BigInteger, comment="of that event"),
    Index(None, "scope_id", "visitor_id"),
    sqlite_with_rowid=False,
)
