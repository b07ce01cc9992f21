-- How far the statements of some works are.
SELECT toInt64(sum(read_rows)) AS rows_read, toInt64(sum(total_rows_approx)) AS rows_to_read
FROM system.processes
-- Only initial queries: the others are shares of them on other nodes.
WHERE is_initial_query AND Settings['log_comment'] IN {works:Array(String)}
