-- The server that responds, whether it has all rows of stored outcomes that any server of a cluster
-- has written, and whether it has tried in vain to fetch some for ten minutes. The log of each
-- table begins with a change of the table, at 0.
SELECT
    toString(serverUUID()) AS server,
    countIf(
        is_readonly OR inserts_in_queue > 0 OR (log_max_index > 0 AND log_pointer <= log_max_index)
    ) = 0 AS is_complete,
    countIf(inserts_in_queue > 0 AND inserts_oldest_time < now() - INTERVAL 10 MINUTE) > 0
        AS is_stuck
FROM system.replicas
WHERE database = currentDatabase()
    AND table IN ('funnel_outcomes', 'funnel_outcome_values', 'funnel_outcome_unitless')
