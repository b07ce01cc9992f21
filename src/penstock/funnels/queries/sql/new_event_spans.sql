-- The given websites' events inserted after `after_block` and up to `until_block`, one row per UTC
-- day. The name of a part contains the number of its newest insert, so older parts are not opened.
SELECT
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_ms,
    count() AS events,
    countIf(source = 'provider') AS provider_events
FROM events
WHERE website_id IN {websites:Array(String)}
    AND _block_number > {after_block:Int64} AND _block_number <= {until_block:Int64}
    AND toInt64(splitByChar('_', _part)[3]) > {after_block:Int64}
GROUP BY toDate32(occurred_at)
