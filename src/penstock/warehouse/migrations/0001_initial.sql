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
    link                LowCardinality(String) COMMENT 'slug of the managed link that an install or open came from',
    link_method         LowCardinality(String) COMMENT 'how the link was found: url, install_referrer, click_token or network',
    properties          String CODEC(ZSTD) COMMENT 'the JSON object as sent',
    scalars             JSON(max_dynamic_paths = 1024) COMMENT 'tagged texts',
    hashes              JSON(max_dynamic_paths = 1024) COMMENT 'their hashes',
    INDEX received      received_at TYPE minmax -- what came in last is read every second by whoever watches
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

-- What was taken in, in sum: which names, which properties with which types, their commonest values. Fed by each insert into `events`,
-- so that builders never wait for a scan. A row with the property '' is the event itself. Properties of page views are summed over all paths,
-- which may be as many as visitors; a list of values holds 100 of each type, however many there are.
CREATE TABLE IF NOT EXISTS catalogue
(
    website_id LowCardinality(String),
    kind       Enum8('pageview' = 1, 'screenview' = 2, 'event' = 3, 'transaction' = 4),
    name       String COMMENT 'as of events; empty for a property of page views',
    property   String COMMENT 'a key of properties, or the $name of a built-in field',
    type       Enum8('none' = 0, 'string' = 1, 'number' = 2, 'boolean' = 3, 'object' = 4) COMMENT 'object: or an array',
    events     SimpleAggregateFunction(sum, UInt64),
    last_at    SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    top        AggregateFunction(topK(100, 1, 'counts'), String) COMMENT 'values as JSON texts, those of a built-in field bare'
)
ENGINE = AggregatingMergeTree
ORDER BY (website_id, property, kind, name, type)
SETTINGS index_granularity = 256, merge_max_block_size = 1024, -- rows are few, their states up to 20 KB
    non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;

-- Keys are those that a funnel can name. Nulls are no values; a value longer than 256 bytes is counted, but not listed.
CREATE MATERIALIZED VIEW IF NOT EXISTS catalogue_feed TO catalogue AS
WITH
    arrayFilter(field -> field.2 != '', [
        ('$path', path::String), ('$referrer_host', referrer_host::String), ('$country', country::String), ('$region', region::String),
        ('$device', device::String), ('$os', os::String), ('$browser', browser::String), ('$utm_source', utm_source::String),
        ('$utm_medium', utm_medium::String), ('$utm_campaign', utm_campaign::String), ('$utm_content', utm_content::String),
        ('$utm_term', utm_term::String), ('$link', link::String), ('$link_method', link_method::String), ('$source', source::String), ('$external_session_id', external_session_id)
    ]) AS fields,
    arrayFilter(sent -> sent.2 != 'null' AND length(sent.1) BETWEEN 1 AND 200, JSONExtractKeysAndValuesRaw(properties)) AS sent,
    arrayConcat(
        [('', '', 'none')],
        arrayMap(field -> (field.1, field.2, 'string'), fields),
        arrayMap(one -> (one.1, one.2, transform(
            substring(one.2, 1, 1), ['"', 't', 'f', '{', '['], ['string', 'boolean', 'boolean', 'object', 'object'], 'number'
        )), sent)
    ) AS items
SELECT
    website_id,
    kind,
    if(item.1 != '' AND kind = 'pageview', '', events.name) AS name,
    item.1 AS property,
    item.3 AS type,
    count() AS events,
    max(occurred_at) AS last_at,
    topKStateIf(100, 1, 'counts')(item.2, type IN ('string', 'number', 'boolean') AND length(item.2) <= 256) AS top
FROM events
ARRAY JOIN items AS item
WHERE kind != 'provider' -- which no funnel can match
GROUP BY website_id, kind, name, property, type;

-- Openings of managed links, by people and by programs; never rewritten. No network address and no User-Agent is kept, only what was told from them.
CREATE TABLE IF NOT EXISTS clicks
(
    website_id    LowCardinality(String),
    link_id       String CODEC(ZSTD),
    clicked_at    DateTime64(3, 'UTC') CODEC(Delta, ZSTD),
    click_id      String,
    answer        Enum8('page' = 1, 'redirect' = 2, 'preview' = 3),
    bot           Bool COMMENT 'no person: counts as a hit, not as a click',
    bot_reason    LowCardinality(String) COMMENT 'why bot is set',
    first_of_day  Bool COMMENT 'the first click of this browser on this link on this day (UTC), as far as the node knows',
    platform      LowCardinality(String) COMMENT 'ios, android, mobile (another) or desktop',
    os_major      UInt16 COMMENT '0: unknown',
    in_app        LowCardinality(String) COMMENT 'the app whose browser it was; empty: a browser of its own',
    referrer_host LowCardinality(String),
    language      LowCardinality(String),
    country       LowCardinality(String) COMMENT 'ISO 3166-1, two letters; empty: unknown',
    qr            Bool COMMENT 'the address was read from a QR code',
    utm_source    LowCardinality(String) COMMENT 'of the link as it was then',
    utm_medium    LowCardinality(String),
    utm_campaign  LowCardinality(String),
    token_hash    String COMMENT 'SHA-256 in hex of the token that the page carried'
)
ENGINE = MergeTree
ORDER BY (website_id, link_id, clicked_at)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;
