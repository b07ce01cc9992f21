-- The retained events of some websites: their span, what a funnel statement has to care for, and what time alone
-- changes: an event in the future, and the first event whose conversion window may still be open.
-- history_start_ms: the first event that proves history around the period (`penstock.funnels.queries.history`).
WITH occurred_at <= fromUnixTimestamp64Milli({evaluated_at:Int64}) AS is_read
SELECT
    countIf(is_read) AS events,
    toInt64(toUnixTimestamp64Milli(minIf(occurred_at, is_read))) AS first_event_ms,
    toInt64(toUnixTimestamp64Milli(maxIf(occurred_at, is_read))) AS last_event_ms,
    toInt64(toUnixTimestamp64Milli(minIfOrNull(occurred_at, is_read AND occurred_at >= fromUnixTimestamp64Milli({history_from:Int64})))) AS history_start_ms,
    countIf(is_read AND source = 'provider') > 0 AS has_provider_events,
    (SELECT count() > 0 FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}) AS has_aliases,
    toInt64(toUnixTimestamp64Milli(minIf(occurred_at, NOT is_read))) AS next_event_ms,
    toInt64(toUnixTimestamp64Milli(minIf(occurred_at, is_read AND occurred_at >= fromUnixTimestamp64Milli({open_from:Int64})
        AND occurred_at < fromUnixTimestamp64Milli({open_until:Int64})))) AS first_open_ms
FROM events
WHERE website_id IN {websites:Array(String)}
