-- Parts with rows that were inserted after the newest checked block of their table.
SELECT table, name, max_block_number
FROM system.parts
WHERE database = currentDatabase() AND active AND rows > 0 AND table IN {tables:Array(String)}
    AND max_block_number > {checked:Array(Int64)}[indexOf({tables:Array(String)}, table)]
ORDER BY table, max_block_number
