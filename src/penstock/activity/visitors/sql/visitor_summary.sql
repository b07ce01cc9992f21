-- Totals of one visitor. visitors: all IDs of the visitor in the scope.
SELECT
    count() AS events,
    countIf(kind = 'pageview') AS pageviews,
    countIf(kind = 'screenview') AS screenviews,
    countIf(kind = 'transaction') AS transactions,
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_ms,
    argMax((website_id, toString(kind), name), occurred_at) AS last_event,
    argMaxIf(country, occurred_at, country != '') AS last_country,
    argMaxIf(device, occurred_at, device != '') AS last_device
FROM events
WHERE website_id IN {websites:Array(String)}
    AND visitor_key IN (SELECT sipHash64({scope:String}, arrayJoin({visitors:Array(String)})))
