-- Clicks by link.
SELECT link_id, count() AS clicks FROM clicks GROUP BY link_id
