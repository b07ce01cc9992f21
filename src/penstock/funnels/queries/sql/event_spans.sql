-- The given websites' retained events from `first` to `last`, one row per UTC day. Days are split
-- at the times in GROUP BY.
SELECT
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_ms,
    count() AS events,
    countIf(source = 'provider') AS provider_events
FROM events
WHERE website_id IN {websites:Array(String)}
    AND occurred_at >= fromUnixTimestamp64Milli({first:Int64})
    AND occurred_at <= fromUnixTimestamp64Milli({last:Int64})
GROUP BY
    toDate32(occurred_at),
    (occurred_at > fromUnixTimestamp64Milli({evaluated_at:Int64}))
        + (occurred_at >= fromUnixTimestamp64Milli({history_from:Int64}))
        + (occurred_at >= fromUnixTimestamp64Milli({open_from:Int64}))
        + (occurred_at >= fromUnixTimestamp64Milli({open_until:Int64}))
