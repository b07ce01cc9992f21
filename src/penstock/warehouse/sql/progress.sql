-- How far the statements of some works are.
SELECT toInt64(sum(read_rows)) AS rows_read, toInt64(sum(total_rows_approx)) AS rows_to_read
FROM system.processes
WHERE is_initial_query AND Settings['log_comment'] IN {works:Array(String)} -- the rest is its share on other nodes
