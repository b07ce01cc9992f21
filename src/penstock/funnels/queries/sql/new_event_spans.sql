-- The events of some websites that were inserted after a number and up to another, a row for each
-- day (UTC). A part has the number of its newest insert in its name, so that older parts are not
-- opened.
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
