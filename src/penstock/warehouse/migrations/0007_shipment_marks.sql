-- The highest number of a shipment that was sent, by installation. A metadata database that knows only lower ones has lost
-- its newest entries, and would number other rows alike: the engine would take them for repeats.
CREATE TABLE IF NOT EXISTS shipment_marks
(
    installation String,
    number       UInt64
)
ENGINE = ReplacingMergeTree(number)
ORDER BY installation
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
