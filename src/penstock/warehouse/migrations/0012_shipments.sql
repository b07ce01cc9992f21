-- The number of the shipment that stored an event. The metadata DB numbers shipments, so all replicas and nodes have one
-- order. Stored outcomes find new events by it: the index lets a query skip what was shipped earlier.
ALTER TABLE events ADD COLUMN IF NOT EXISTS shipment UInt64 CODEC(Delta, ZSTD)
    COMMENT 'number of the shipment that stored the event; 0: one of an earlier version';

ALTER TABLE events ADD INDEX IF NOT EXISTS shipments shipment TYPE minmax GRANULARITY 1;

-- Earlier marks name inserts of the engine, so the outcomes are built again.
ALTER TABLE funnel_outcome_marks RENAME COLUMN IF EXISTS events_block TO shipment;

TRUNCATE TABLE funnel_outcome_marks;

-- Each change is the first entry in the log of its table's replicas.
ALTER TABLE funnel_outcome_values MODIFY COLUMN keys Array(UInt64) CODEC(ZSTD) COMMENT 'hashes of the values';

ALTER TABLE funnel_outcome_unitless MODIFY COLUMN block Int64 CODEC(ZSTD) COMMENT 'number of the shipment';
