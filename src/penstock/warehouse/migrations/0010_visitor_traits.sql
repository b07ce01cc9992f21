-- Traits of users, by the canonical visitor of each user. One row for each change; the highest version holds.
-- A row without traits says that the visitor has none any more. The engine merges parts that are older
-- than six hours, because a deletion of a user does not find replaced traits of a visitor that was released earlier.
CREATE TABLE IF NOT EXISTS visitor_traits
(
    scope_id    LowCardinality(String),
    visitor_id  String COMMENT 'canonical',
    visitor_key UInt64 DEFAULT sipHash64(scope_id, visitor_id),
    texts       Map(String, String) COMMENT 'tagged texts of the scalar traits, by name',
    version     UInt64 COMMENT 'rises with every change'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (scope_id, visitor_key)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_age_to_force_merge_seconds = 21600;
