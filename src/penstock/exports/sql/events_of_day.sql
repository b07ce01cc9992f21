-- Events of a website in a span of time, in their reading order. The columns that are left out
-- repeat other columns in a form for the engine.
SELECT
    * EXCEPT (visitor_key, scalars, hashes, import_id, shipment)
    REPLACE (toString(kind) AS kind, toString(source) AS source)
FROM events
WHERE website_id = {website:String}
    AND occurred_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')
    AND occurred_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
ORDER BY occurred_at, event_id
