-- Parts with rows that were inserted into a table after a block.
SELECT name, max_block_number
FROM system.parts
WHERE database = currentDatabase() AND active AND rows > 0 AND table = {table:String} AND max_block_number > {after:Int64}
ORDER BY max_block_number
