-- The newest block of each table that has rows.
SELECT table, max(max_block_number)
FROM system.parts
WHERE database = currentDatabase() AND active AND table IN {tables:Array(String)}
GROUP BY table
