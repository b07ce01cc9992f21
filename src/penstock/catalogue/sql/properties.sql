-- One page of the properties with their types, most frequent first, and their total number. A path
-- selects all page views: the catalogue does not store properties by path. Fields of touches appear
-- for every kind and event, because every event has its visitor's touches. So do traits, which
-- count visitors instead of events and have no time. Different values are counted for one event
-- only: their states are large, and those of all events would take seconds.
WITH typed AS
(
    SELECT property, toString(type) AS type, sum(events) AS events,
        toInt64(toUnixTimestamp64Milli(max(last_at))) AS last_ms,
        if({event:String} = '', 0, length(topKMerge(100, 1, 'counts')(top))) AS different
    FROM catalogue
    WHERE website_id IN {websites:Array(String)} AND property != ''
        AND ({kind:String} = '' OR toString(kind) = {kind:String})
        AND ({search:String} = '' OR positionCaseInsensitiveUTF8(property, {search:String}) > 0)
        AND ({event:String} = '' OR if(kind = 'pageview', {path:String} IN
        (
            SELECT name FROM catalogue
            WHERE website_id IN {websites:Array(String)} AND property = '' AND kind = 'pageview'
                AND name = {path:String}
        ), name = {event:String}))
    GROUP BY property, type
    UNION ALL
    SELECT touch.2 AS property, toString(type) AS type, sum(events) AS events,
        toInt64(toUnixTimestamp64Milli(max(last_at))) AS last_ms,
        if({event:String} = '', 0, length(topKMerge(100, 1, 'counts')(top))) AS different
    FROM catalogue
    ARRAY JOIN {touches:Array(Tuple(String, String))} AS touch
    WHERE website_id IN {websites:Array(String)} AND catalogue.property = touch.1
        AND ({search:String} = '' OR positionCaseInsensitiveUTF8(touch.2, {search:String}) > 0)
    GROUP BY touch.2, type
    UNION ALL
    SELECT concat({trait_prefix:String}, trait.1) AS property,
        transform(substring(trait.2, 1, 1), ['s', 'n'], ['string', 'number'], 'boolean') AS type,
        count() AS events, 0 AS last_ms,
        if({event:String} = '', 0, uniqUpTo(99)(trait.2)) AS different
    FROM
    (
        SELECT texts FROM visitor_traits FINAL
        WHERE scope_id IN {scopes:Array(String)} LIMIT {visitors:UInt64}
    )
    ARRAY JOIN CAST(texts, 'Array(Tuple(String, String))') AS trait
    WHERE length(property) <= {key_bytes:UInt64}
        AND ({search:String} = '' OR positionCaseInsensitiveUTF8(property, {search:String}) > 0)
    GROUP BY property, type
),
seen AS
(
    SELECT
        property,
        sum(typed.events) AS events,
        max(typed.last_ms) AS last_ms,
        arraySort(type -> (-toInt64(type.2), type.1),
            groupArray((typed.type, typed.events, typed.last_ms))) AS types,
        sum(typed.different) AS different
    FROM typed
    GROUP BY property
)
SELECT
    (SELECT count() FROM seen) AS total,
    (
        SELECT groupArray((property, events, last_ms, types, different))
        FROM (
            SELECT * FROM seen ORDER BY events DESC, property
            LIMIT {limit:UInt64} OFFSET {offset:UInt64})
    ) AS page
