-- The statement by which the view sums up what comes in.
SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = 'catalogue_feed'
