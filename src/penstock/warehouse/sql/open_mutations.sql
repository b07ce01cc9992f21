-- Mutations of a table that are not done, and why the engine has not managed one of them so far.
SELECT count() AS mutations, max(latest_fail_reason) AS reason
FROM system.mutations
WHERE database = currentDatabase() AND table IN ({table:String}, {table:String} || '_local')
    AND NOT is_done
