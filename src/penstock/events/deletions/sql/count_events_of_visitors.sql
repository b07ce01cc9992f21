-- Events of the given visitors that were received up to `requested_at`, by website.
SELECT
    website_id,
    count() AS events,
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_event_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_event_ms
FROM events
WHERE website_id IN {websites:Array(String)} AND visitor_key IN {visitors:Array(UInt64)}
    -- Another statement selects the events that name the user.
    AND (user_id != {user:String} OR user_id = '')
    AND received_at <= fromUnixTimestamp64Milli({requested_at:Int64})
GROUP BY website_id
