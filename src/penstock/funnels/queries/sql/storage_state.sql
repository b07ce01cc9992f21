-- The parts of the tables that funnels read, with the number of the newest insert in each. A part
-- is never changed under its name, so while the parts are the same, so is what is stored. On a
-- shard of a cluster the events lie in `events_local`. Nothing is summed up here: most of the time
-- of this statement is its analysis, and every answer waits for it.
SELECT table, name, max_block_number
FROM system.parts
WHERE database = currentDatabase() AND table IN ('events', 'events_local', 'visitor_aliases')
    AND active
