-- The parts of the tables that funnels read, with the number of the newest insert in each. A server
-- never changes a part under its name, so while its parts are the same, so is what it stores. The
-- servers of a cluster give their parts equal names; `shardNum` numbers the servers there, from 1,
-- and the events lie in `events_local`. Nothing is summed up here: most of the time of this
-- statement is its analysis, and every answer waits for it.
SELECT shardNum() AS server, table, name, max_block_number
FROM system.parts
WHERE database = currentDatabase() AND table IN ('events', 'events_local', 'visitor_aliases')
    AND active
