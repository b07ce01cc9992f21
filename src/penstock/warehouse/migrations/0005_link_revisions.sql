-- A link can be edited: its revision says which name, destination and fallback a click met. Until now there was only the first.
ALTER TABLE clicks ADD COLUMN IF NOT EXISTS link_revision UInt32 DEFAULT 1 CODEC(ZSTD)
    COMMENT 'of the link as it was then' AFTER link_id;
