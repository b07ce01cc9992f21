-- Rows of clicks beyond the first with the same ID.
SELECT sum(copies - 1)
FROM (SELECT count() AS copies FROM clicks GROUP BY click_id HAVING copies > 1)
SETTINGS max_bytes_before_external_group_by = 500000000
