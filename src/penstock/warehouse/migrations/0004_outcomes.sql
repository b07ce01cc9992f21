-- Every row keeps the number that the engine gave to its insert, also after parts were merged, so that what came in since
-- some number can be read by itself. Rows of older parts get the lowest number of their part; those are older than any number asked for.
ALTER TABLE events MODIFY SETTING enable_block_number_column = 1;

ALTER TABLE visitor_aliases MODIFY SETTING enable_block_number_column = 1;

-- Stored outcomes of funnels: what the folds decided about each unit, whatever the period and the time of asking. A build is
-- the rows of one stored outcome, computed from all events at once and kept up to date; they are dropped together. Nothing here is the only
-- copy of anything.
CREATE TABLE IF NOT EXISTS funnel_outcomes
(
    build     LowCardinality(String),
    unit      UInt64 CODEC(Delta, ZSTD),
    version   UInt64 CODEC(ZSTD) COMMENT 'number of the newest insert into events that the row knows',
    first_ts  Int64 CODEC(ZSTD) COMMENT 'milliseconds of its first event that matches a row of the funnel',
    entry_ts  Int64 CODEC(ZSTD) COMMENT 'milliseconds',
    took      Int64 CODEC(T64, ZSTD) COMMENT 'milliseconds from the entry to the last completed step',
    reached   UInt8 CODEC(ZSTD) COMMENT 'steps; 0: the unit has not entered, and has no other values',
    keys      Array(UInt64) CODEC(ZSTD) COMMENT 'hashes of the entry values',
    chosen    UInt64 CODEC(ZSTD) COMMENT 'mask of the matches that counted',
    skips     UInt32 CODEC(ZSTD),
    ties      UInt32 CODEC(ZSTD),
    invalid   UInt32 CODEC(ZSTD),
    tied      UInt8 CODEC(ZSTD),
    conflicts UInt8 CODEC(ZSTD),
    visitors  Array(UInt64) CODEC(ZSTD) COMMENT 'as sent; empty unless there are several',
    seen      Array(UInt32) CODEC(ZSTD) COMMENT 'events of each diagnostic row',
    cut       UInt8 CODEC(ZSTD),
    pauses    Array(Int64) CODEC(T64, ZSTD) COMMENT 'milliseconds from each completed step to the next, from 0'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY build
ORDER BY (build, unit) -- FINAL would take rows of other builds for older versions
SETTINGS non_replicated_deduplication_window = 0, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS funnel_outcome_values
(
    build LowCardinality(String),
    value UInt64 COMMENT 'hash of the combination',
    keys  Array(UInt64) CODEC(ZSTD),
    texts Array(String) CODEC(ZSTD)
)
ENGINE = ReplacingMergeTree
PARTITION BY build
ORDER BY (build, value)
SETTINGS non_replicated_deduplication_window = 0, fsync_after_insert = 1, fsync_part_directory = 1;

-- Events without an attempt ID. The number of their insert tells a repeated count from another one.
CREATE TABLE IF NOT EXISTS funnel_outcome_unitless
(
    build  LowCardinality(String),
    ts     Int64 CODEC(Delta, ZSTD),
    block  Int64 CODEC(ZSTD),
    events UInt64 CODEC(ZSTD)
)
ENGINE = ReplacingMergeTree
PARTITION BY build
ORDER BY (build, ts, block)
SETTINGS non_replicated_deduplication_window = 0, fsync_after_insert = 1, fsync_part_directory = 1;

-- What each stored outcome knows: the newest mark of an outcome holds. Written after the rows that it speaks for.
CREATE TABLE IF NOT EXISTS funnel_outcome_marks
(
    outcome       String COMMENT 'hash of the definition and its websites',
    number        UInt64 COMMENT 'of the mark',
    build         String COMMENT 'empty: dropped',
    workspace_id  String,
    funnel_id     String,
    events_block  Int64 COMMENT 'number of the newest insert into events that is known',
    events        UInt64 COMMENT 'events of the websites up to there',
    read_until    Int64 COMMENT 'later events were not read',
    next_event    Int64 COMMENT 'the first of them; 0: none',
    asked_at      Int64
)
ENGINE = ReplacingMergeTree(number)
ORDER BY outcome
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
