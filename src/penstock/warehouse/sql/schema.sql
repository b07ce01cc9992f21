-- Events as they were taken in; never rewritten. Sorted so that a funnel reads the names it needs and skips the rest.
-- A text field that an event does not have is ''. `scalars` and `hashes` hold the scalar properties once more, typed,
-- a column for each key (penstock.base.scalar).
CREATE TABLE IF NOT EXISTS events
(
    website_id          LowCardinality(String),
    kind                Enum8('pageview' = 1, 'screenview' = 2, 'event' = 3, 'transaction' = 4, 'provider' = 5),
    name                LowCardinality(String) COMMENT 'path of a pageview, screen, event name or transaction event',
    occurred_at         DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    event_id            String,
    received_at         DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    stated_at           DateTime64(3, 'UTC') CODEC(Delta, ZSTD) COMMENT 'the time the sender gave; differs from occurred_at where its clock was corrected',
    scope_id            LowCardinality(String) COMMENT 'identity scope of the visitor',
    visitor_id          String CODEC(ZSTD) COMMENT 'as stored with; visitor_aliases lead to the canonical one',
    visitor_key         UInt64 DEFAULT sipHash64(scope_id, visitor_id),
    user_id             String CODEC(ZSTD),
    source              Enum8('server' = 1, 'browser' = 2, 'app' = 3, 'import' = 4, 'provider' = 5),
    verified            Bool COMMENT 'of a provider event: whether what the provider signed names the visitor or user',
    session_id          String CODEC(ZSTD),
    external_session_id String CODEC(ZSTD),
    path                LowCardinality(String),
    url                 String CODEC(ZSTD),
    title               String CODEC(ZSTD),
    referrer            String CODEC(ZSTD),
    referrer_host       LowCardinality(String),
    country             LowCardinality(String),
    region              LowCardinality(String),
    device              LowCardinality(String),
    os                  LowCardinality(String),
    browser             LowCardinality(String),
    utm_source          LowCardinality(String),
    utm_medium          LowCardinality(String),
    utm_campaign        LowCardinality(String),
    utm_content         LowCardinality(String),
    utm_term            LowCardinality(String),
    properties          String CODEC(ZSTD) COMMENT 'the JSON object as sent',
    scalars             JSON(max_dynamic_paths = 1024) COMMENT 'tagged texts',
    hashes              JSON(max_dynamic_paths = 1024) COMMENT 'their hashes'
)
ENGINE = MergeTree
ORDER BY (website_id, name, occurred_at)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;

-- Which visitor an absorbed one counts as. One row for each merge and each flattened chain; the highest version holds.
CREATE TABLE IF NOT EXISTS visitor_aliases
(
    scope_id      LowCardinality(String),
    visitor_id    String,
    canonical_id  String,
    visitor_key   UInt64 DEFAULT sipHash64(scope_id, visitor_id),
    canonical_key UInt64 DEFAULT sipHash64(scope_id, canonical_id),
    version       UInt64 COMMENT 'number of the merge'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (scope_id, visitor_key)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;
