-- Number of unfinished mutations of stored events.
SELECT count()
FROM system.mutations
WHERE database = currentDatabase() AND table IN ('events', 'events_local') AND NOT is_done
