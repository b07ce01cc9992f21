"""Tables of receipts, and of the keys that sign them."""

from sqlalchemy import BigInteger, Column, Index, Table, Text

from penstock.metadb.tables.base import metadata, required, workspace_id

receipts = Table(
    "receipts",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("funnel_id", Text, comment="the funnel may have been deleted since"),
    required(
        "question", Text, comment="hash of the funnel, its revision and what was selected of it"
    ),
    required("name", Text),
    required("created_at", BigInteger),
    required("created_by", Text, comment="e-mail address of the member, or name of the key"),
    required("document", Text, comment="what is signed: canonical JSON"),
    required("key_id", Text, comment="of the key that signed it"),
    required("signature", Text),
    Index(None, "workspace_id", "created_at"),
    Index(None, "funnel_id", "created_at"),
    Index(None, "question"),
)

receipt_keys = Table(
    "receipt_keys",
    metadata,
    Column("id", Text, primary_key=True),
    required("public_key", Text, comment="Ed25519, in base64"),
    Column("private_key", Text, comment="sealed; unset once another key has replaced it"),
    required("sums_key", Text, comment="sealed; keys the hashes of the receipts that it signed"),
    required("created_at", BigInteger),
    Column("retired_at", BigInteger, comment="unset: it signs"),
)
