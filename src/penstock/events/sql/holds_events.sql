SELECT count()
FROM events
WHERE website_id IN {website_ids:Array(String)} AND name IN {names:Array(String)}
    AND event_id IN {event_ids:Array(String)}
