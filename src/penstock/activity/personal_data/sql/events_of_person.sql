-- All events of a visitor or user, oldest first. visitors: all IDs of the visitor in the scope.
-- user: empty without a user.
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
    AND (
        visitor_key IN (SELECT sipHash64({scope:String}, arrayJoin({visitors:Array(String)})))
        OR user_id = {user:String} AND user_id != ''
    )
ORDER BY occurred_at, event_id
