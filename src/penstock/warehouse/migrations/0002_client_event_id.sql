-- The sender's own ID of an event, so that people can look an event up by the ID that they know.
ALTER TABLE events ADD COLUMN IF NOT EXISTS client_event_id String CODEC(ZSTD)
    COMMENT 'eventId, dedupeKey or transactionId as sent; empty when the sender gave none' AFTER event_id;
