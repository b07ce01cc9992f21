ALTER TABLE funnel_outcomes
    ADD COLUMN IF NOT EXISTS excluded_after Int64 DEFAULT -1 CODEC(T64, ZSTD)
        COMMENT 'milliseconds from the entry to the exclusion; -1: not excluded';
