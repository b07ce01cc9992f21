-- One page of the event names, and their total number.
WITH seen AS
(
    SELECT kind, name, sum(events) AS events,
        toInt64(toUnixTimestamp64Milli(max(last_at))) AS last_ms
    FROM catalogue
    WHERE website_id IN {websites:Array(String)} AND property = ''
        AND ({kind:String} = '' OR toString(kind) = {kind:String})
        AND ({search:String} = '' OR positionCaseInsensitiveUTF8(name, {search:String}) > 0
            OR kind = 'pageview' AND positionCaseInsensitiveUTF8(name, {path_search:String}) > 0)
    GROUP BY kind, name
)
SELECT
    (SELECT count() FROM seen) AS total,
    (
        SELECT groupArray((toString(kind), name, events, last_ms))
        FROM (
            SELECT * FROM seen ORDER BY events DESC, name, kind
            LIMIT {limit:UInt64} OFFSET {offset:UInt64})
    ) AS page
