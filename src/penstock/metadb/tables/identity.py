"""Tables of visitors, and of the merges that combine them."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, Integer, Table, Text

from penstock.metadb.tables.base import AutoId, metadata, required

visitors = Table(
    "visitors",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True),
    required(
        "canonical_id",
        Text,
        comment="itself, or the visitor that it was merged into; never a chain",
    ),
    Column("user_id", Text, comment="the user that the canonical visitor is linked to"),
    Column("trust", Integer, comment="of the claim that gave it this user; unset: as a backend's"),
    required("created_at", BigInteger),
    sqlite_with_rowid=False,
)

user_links = Table(
    "user_links",
    metadata,
    Column("scope_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    required("visitor_id", Text, comment="canonical"),
    Column("trust", Integer, comment="of the claim that linked them; unset: as a backend's"),
    Column("traits", JSON, comment="that the user has, by name"),
    required("created_at", BigInteger),
    Column("trait_statements", JSON, comment="what was stated about each trait, and when"),
    sqlite_with_rowid=False,
)

merges = Table(
    "merges",
    metadata,
    Column("id", AutoId, primary_key=True, autoincrement=True),
    required("scope_id", Text),
    required("absorbed_id", Text),  # the visitor that was merged into kept_id
    required("kept_id", Text),  # the canonical visitor after the merge
    required("user_id", Text),  # the user that both visitors were identified as
    required("merged_at", BigInteger),
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
    required("user_id", Text, comment="whose claim released them"),
    required("is_deletion", Boolean, comment="their rows are removed"),
    required("created_at", BigInteger),
    sqlite_with_rowid=False,
)

import_identities = Table(
    "import_identities",
    metadata,
    Column("import_id", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("visitor_id", Text, primary_key=True, comment="empty: only the user"),
    Column("user_id", Text, primary_key=True, comment="empty: only the visitor"),
    Index(None, "scope_id", "visitor_id", "user_id"),
    sqlite_with_rowid=False,
)

import_traits = Table(
    "import_traits",
    metadata,
    Column("import_id", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    required("statements", JSON, comment="what it stated about each trait"),
    Index(None, "scope_id", "user_id"),
    sqlite_with_rowid=False,
)
