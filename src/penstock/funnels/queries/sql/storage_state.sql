-- The newest insert of each table, and one number for all parts. A part is never changed under its name, so while the state is the
-- same, so is what is stored. The engine also merges parts, which changes the number of the parts alone. On a shard of a cluster
-- the events lie in `events_local`.
SELECT
    maxIf(max_block_number, table = 'events') AS events_block,
    maxIf(max_block_number, table = 'visitor_aliases') AS aliases_block,
    cityHash64(arraySort(groupArray((table, name)))) AS parts
FROM system.parts
WHERE database = currentDatabase() AND table IN ('events', 'events_local', 'visitor_aliases') AND active
