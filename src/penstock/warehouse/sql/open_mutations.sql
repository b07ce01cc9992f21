-- Number of unfinished mutations of a table, and why one of them has failed so far.
SELECT count() AS mutations, max(latest_fail_reason) AS reason
FROM system.mutations
WHERE database = currentDatabase() AND table IN ({table:String}, {table:String} || '_local')
    AND NOT is_done
