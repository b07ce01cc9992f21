-- The most frequent values of a property by type: number of events with the type, (value, count) of
-- up to 100 values. A count is a lower bound, without what dropped values may have added; it is
-- exact if none was dropped.
SELECT sum(events) AS events,
    arrayMap(entry -> (entry.1, entry.2 - entry.3), topKMerge(100, 1, 'counts')(top)) AS top
FROM catalogue
WHERE website_id IN {websites:Array(String)} AND property = {property:String}
    AND type IN ('string', 'number', 'boolean')
    AND ({kind:String} = '' OR toString(kind) = {kind:String})
    AND ({event:String} = '' OR if(kind = 'pageview', {path:String} IN
    (
        SELECT name FROM catalogue
        WHERE website_id IN {websites:Array(String)} AND property = '' AND kind = 'pageview'
            AND name = {path:String}
    ), name = {event:String}))
GROUP BY type
