-- Events that an import stored, by website.
SELECT
    website_id,
    count() AS events,
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_event_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_event_ms
FROM events
WHERE website_id IN {websites:Array(String)} AND import_id = {import:String}
GROUP BY website_id
