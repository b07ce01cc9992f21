-- The tables that have parts on disk. Their folder has the table's UUID as its name.
SELECT name, toString(uuid) FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name
