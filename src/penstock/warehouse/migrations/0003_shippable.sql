-- Few property keys with files of their own, the rest together: with a file for each key, one sender with thousands of keys
-- used up the descriptors of the process, and no insert succeeded again. The engine rewrites existing parts when it merges
-- or mutates them; a kill in the middle leaves a mutation that it completes by itself.
-- Measured on 300,000 rows with 2,040 keys: 2,385 files per part before; 7 in a compact part, 895 in a wide one now.
ALTER TABLE events MODIFY SETTING
    min_bytes_for_wide_part = 134217728,
    -- 'advanced' reads one key of the shared data a little faster, but merges of many keys take ten times as long.
    object_shared_data_serialization_version = 'map_with_buckets',
    object_shared_data_serialization_version_for_zero_level_parts = 'map_with_buckets',
    object_shared_data_buckets_for_wide_part = 8;

ALTER TABLE events
    MODIFY COLUMN scalars JSON(max_dynamic_paths = 32) COMMENT 'tagged texts',
    MODIFY COLUMN hashes JSON(max_dynamic_paths = 32) COMMENT 'their hashes'
    SETTINGS mutations_sync = 2;

-- Tells an engine that cannot write anything from one that refuses some rows (Warehouse.accepts_inserts).
CREATE TABLE IF NOT EXISTS insert_probe (at DateTime64(3, 'UTC'))
ENGINE = MergeTree
ORDER BY at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
