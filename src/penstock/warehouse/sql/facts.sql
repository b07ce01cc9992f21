-- What is retained of some websites: the span of their events, and what a funnel query has to care for.
SELECT
    count() AS events,
    toInt64(toUnixTimestamp64Milli(min(occurred_at))) AS first_event_ms,
    toInt64(toUnixTimestamp64Milli(max(occurred_at))) AS last_event_ms,
    countIf(source = 'provider') > 0 AS has_provider_events,
    (SELECT count() > 0 FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}) AS has_aliases
FROM events
WHERE website_id IN {websites:Array(String)} AND occurred_at <= fromUnixTimestamp64Milli({evaluated_at:Int64})
