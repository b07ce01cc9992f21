"""Tables of managed links, their clicks and their matches."""

from sqlalchemy import (
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
    false,
)

from penstock.metadb.tables.base import metadata, required, workspace_id

links = Table(
    "links",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text, ForeignKey("websites.id")),
    required(
        "slug", Text, unique=True, comment="one space for all workspaces: it is the public address"
    ),
    required("name", Text, comment="internal, never shown"),
    required("destination_path", Text),
    Column("fallback_url", Text),
    Column("utm_source", Text),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    Column("expires_at", BigInteger, comment="from then on it leads to expired_url; unset: never"),
    Column("expired_url", Text, comment="unset: an expired link is not found"),
    required(
        "revision",
        Integer,
        server_default="1",
        comment="number of the newest row of link_revisions",
    ),
    required("search_text", Text, comment="name, slug and tags in folded letter case, a line each"),
    required("is_active", Boolean),
    required(
        "is_archived", Boolean, server_default=false(), comment="works, but lists leave it out"
    ),
    required(
        "pass_query",
        Boolean,
        server_default=false(),
        comment="whether the fallback URL gets the query of the visit",
    ),
    required(
        "unstored_clicks",
        BigInteger,
        server_default="0",
        comment="clicks over the quota, which are not stored",
    ),
    required("created_at", BigInteger),
    required("updated_at", BigInteger),
    Index(None, "workspace_id", "created_at"),
    Index(None, "workspace_id", "website_id", "created_at"),
)

link_revisions = Table(
    "link_revisions",
    metadata,
    Column("link_id", Text, ForeignKey("links.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="from 1"),
    required("at", BigInteger, comment="since when it holds"),
    required("name", Text),
    required("destination_path", Text),
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
    workspace_id(),
    Index(None, "workspace_id", "tag", "link_id"),
    sqlite_with_rowid=False,
)

link_clicks = Table(
    "link_clicks",
    metadata,
    Column("click_id", Text, primary_key=True, comment="as in the warehouse"),
    required("website_id", Text),
    required("link_id", Text),
    required("link_revision", Integer, server_default="1", comment="of the link as it was then"),
    Column(
        "token_hash", LargeBinary, unique=True, comment="SHA-256; unset: the page carried no token"
    ),
    required("clicked_at", BigInteger),
    required("platform", Text, comment="ios or android"),
    required("os_major", Integer, comment="0: unknown"),
    Column("match_key", LargeBinary, comment="HMAC of the network; removed after an hour"),
    Column("match_until", BigInteger, index=True, comment="when match_key is removed"),
    Column("utm_source", Text, comment="of the link as it was then"),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    Column("claimed_at", BigInteger),  # time when an app open was matched to the click
    Column("claimed_by", Text, comment="install ID; empty once its visitor was deleted"),
    Column("claim_method", Text),  # how the app open was matched, such as network
    required("expires_at", BigInteger, index=True, comment="when the row is removed"),
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
    required("key", LargeBinary, comment="of the HMAC of networks"),
    required(
        "expires_at",
        BigInteger,
        comment="when the row is removed: none of its clicks can be matched any more",
    ),
)

link_matches = Table(
    "link_matches",
    metadata,
    Column("id", Text, primary_key=True),
    workspace_id(),
    required("website_id", Text),
    Column("link_id", Text, comment="unset: the open concerned no link"),
    required(
        "link_revision", Integer, server_default="1", comment="of the link that the app was led by"
    ),
    Column("click_id", Text),  # unset if no click matched
    required("at", BigInteger, index=True, comment="the oldest are removed after 90 days"),
    required("matched", Boolean),
    Column("method", Text, comment="which found the link, also where it was refused"),
    Column("confidence", Double),  # 1 if certain; unset if there is no match
    Column("reason", Text, comment="why there is no match"),
    required("platform", Text),
    Column("os_version", Text),
    Column("app_version", Text),
    # Whether the app reported the first open of the install.
    required("first_open", Boolean),
    Column("clicked_at", BigInteger),  # time of the click, whose row may have been deleted by now
    Column("install_id", Text, comment="null once the visitor was deleted"),
    required("scope_id", Text),
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
    required("at", BigInteger),
    required("link_id", Text),
    Column("utm_source", Text),
    Column("utm_medium", Text),
    Column("utm_campaign", Text),
    sqlite_with_rowid=False,
)
