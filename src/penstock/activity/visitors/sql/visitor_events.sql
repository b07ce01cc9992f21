-- One page of a visitor's events, newest first. visitors: all IDs of the visitor in the scope.
SELECT
    * EXCEPT (
        scope_id, visitor_key, scalars, hashes, occurred_at, received_at, stated_at, import_id,
        shipment
    ),
    toInt64(toUnixTimestamp64Milli(occurred_at)) AS occurred_ms,
    toInt64(toUnixTimestamp64Milli(received_at)) AS received_ms,
    toInt64(toUnixTimestamp64Milli(stated_at)) AS stated_ms
FROM events
WHERE website_id IN {websites:Array(String)}
    AND visitor_key IN (SELECT sipHash64({scope:String}, arrayJoin({visitors:Array(String)})))
ORDER BY occurred_at DESC, event_id DESC
LIMIT {limit:UInt64} OFFSET {offset:UInt64}
