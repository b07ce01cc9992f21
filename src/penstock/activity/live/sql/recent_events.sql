-- The latest events received after a time. An empty filter selects all events. values: possible
-- JSON texts of the property.
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
    AND received_at > fromUnixTimestamp64Milli({after:Int64})
    AND ({kind:String} = '' OR toString(kind) = {kind:String})
    AND ({source:String} = '' OR toString(source) = {source:String})
    AND ({name:String} = '' OR name = {name:String})
    AND (NOT {by_visitor:Bool} OR visitor_key IN {visitors:Array(UInt64)})
    AND ({property:String} = ''
        OR JSONExtractRaw(properties, {property:String}) IN {values:Array(String)})
ORDER BY received_at DESC, event_id DESC
LIMIT {limit:UInt64}
