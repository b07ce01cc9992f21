-- Rebuild the catalogue. Deduplication is off, because the same rows were stored before and then
-- deleted. The statement of the view replaces the brackets.
INSERT INTO catalogue SETTINGS insert_deduplicate = 0
SELECT * FROM (summing) WHERE website_id IN {websites:Array(String)}
