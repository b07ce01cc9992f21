-- The import that stored an event, so that the import can be undone. Events of earlier imports have none.
ALTER TABLE events ADD COLUMN IF NOT EXISTS import_id LowCardinality(String)
    COMMENT 'import that stored the event; empty: none, or one of an earlier version';
