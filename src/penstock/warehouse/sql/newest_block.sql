-- The newest block of a table; 0 without one.
SELECT max(max_block_number)
FROM system.parts
WHERE database = currentDatabase() AND active AND table = {table:String}
