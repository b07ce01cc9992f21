-- Bytes on disk of each table.
SELECT table, sum(bytes_on_disk) FROM system.parts
WHERE active AND database = currentDatabase() GROUP BY table
