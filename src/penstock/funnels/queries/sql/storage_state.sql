-- The parts of the tables that funnels read, with the number of the newest insert in each. A part
-- never changes under its name, so a server with the same parts stores the same data. Parts on
-- different servers of a cluster can have equal names, so `shardNum` numbers the servers from 1;
-- their events are in `events_local`. Nothing is summed up here: the engine spends most of the time
-- analysing this statement, and every response waits for it.
SELECT shardNum() AS server, table, name, max_block_number
FROM system.parts
WHERE database = currentDatabase() AND active
    AND table IN ('events', 'events_local', 'visitor_aliases', 'visitor_traits')
