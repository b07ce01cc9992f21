-- Sum up again. Without deduplication: the same rows were stored before, and were deleted. The
-- view's statement stands in the brackets.
INSERT INTO catalogue SETTINGS insert_deduplicate = 0
SELECT * FROM (summing) WHERE website_id IN {websites:Array(String)}
