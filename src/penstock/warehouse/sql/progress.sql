-- Progress of the running statements of these works.
SELECT toInt64(sum(read_rows)) AS rows_read, toInt64(sum(total_rows_approx)) AS rows_to_read
FROM system.processes
-- Initial queries include the progress of their parts on other nodes.
WHERE is_initial_query AND Settings['log_comment'] IN {works:Array(String)}
