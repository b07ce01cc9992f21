-- For each type of a property: the number of events, and (value, count) of the 100 most frequent
-- values. Counts are lower bounds, because dropped values may have taken a share; they are exact
-- unless a value was dropped.
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
