-- One page of the visitors with events in a period, most recently active first, and their total
-- number. Sums events by stored visitor ID first, then by canonical visitor, since merges are few.
-- An empty filter selects all visitors. part: text in one of their IDs. trait_value: text after the
-- tag (`penstock.base.scalar`); if it is empty, any value.
SELECT
    any(stored.scope) AS scope,
    any(if(aliases.canonical_key = 0, stored.name, aliases.canonical_id)) AS name,
    count() OVER () AS total,
    sum(stored.events) AS events,
    toInt64(toUnixTimestamp64Milli(min(stored.first_at))) AS first_ms,
    toInt64(toUnixTimestamp64Milli(max(stored.last_at))) AS last_ms,
    argMax(stored.last_event, stored.last_at) AS last_event,
    argMaxIf(stored.last_country, stored.last_at, stored.last_country != '') AS last_country,
    argMaxIf(stored.last_device, stored.last_at, stored.last_device != '') AS last_device
FROM
(
    SELECT
        visitor_key,
        any(visitor_id) AS name,
        any(scope_id) AS scope,
        count() AS events,
        min(occurred_at) AS first_at,
        max(occurred_at) AS last_at,
        argMax((website_id, toString(kind), events.name), occurred_at) AS last_event,
        argMaxIf(events.country, occurred_at, events.country != '') AS last_country,
        argMaxIf(events.device, occurred_at, events.device != '') AS last_device,
        countIf({event:String} = '' OR events.name = {event:String}) > 0 AS has_event,
        countIf({country:String} = '' OR country = {country:String}) > 0 AS has_country,
        countIf({device:String} = '' OR device = {device:String}) > 0 AS has_device,
        {part:String} = '' OR positionCaseInsensitiveUTF8(any(visitor_id), {part:String}) > 0
            OR max(positionCaseInsensitiveUTF8(user_id, {part:String})) > 0 AS has_part
    FROM events
    WHERE website_id IN {websites:Array(String)}
        AND occurred_at >= fromUnixTimestamp64Milli({since:Int64})
        AND occurred_at <= fromUnixTimestamp64Milli({until:Int64})
    GROUP BY visitor_key
) AS stored
LEFT ANY JOIN
(
    SELECT visitor_key, argMax(canonical_key, version) AS canonical_key,
        argMax(canonical_id, version) AS canonical_id
    FROM visitor_aliases
    WHERE scope_id IN {scopes:Array(String)}
    GROUP BY visitor_key
) AS aliases ON stored.visitor_key = aliases.visitor_key
GROUP BY if(aliases.canonical_key = 0, stored.visitor_key, aliases.canonical_key) AS visitor
HAVING max(stored.has_event) AND max(stored.has_country) AND max(stored.has_device)
    AND (max(stored.has_part) OR positionCaseInsensitiveUTF8(name, {part:String}) > 0)
    AND ({trait:String} = '' OR visitor IN
    (
        SELECT visitor_key
        FROM visitor_traits
        WHERE scope_id IN {scopes:Array(String)} AND {trait:String} != ''
        GROUP BY visitor_key
        HAVING argMax(texts[{trait:String}], version) != ''
            AND ({trait_value:String} = ''
                OR substring(argMax(texts[{trait:String}], version), 2) = {trait_value:String})
    ))
ORDER BY last_ms DESC, visitor
LIMIT {limit:UInt64} OFFSET {offset:UInt64}
