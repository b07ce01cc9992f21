-- How the events are stored; in a cluster, the table is a view of its shards.
SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'events'
