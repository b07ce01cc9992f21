-- The statement by which the view sums up new events.
SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = 'catalogue_feed'
