-- The table engine of the events. In a cluster it is Distributed.
SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'events'
