-- The commonest values of a property, for each type: how many events carried the type, and (value, count) of up to 100 values.
-- What other values, since dropped, may have added to a count is taken off: it is a lower bound, and the exact count if nothing was dropped.
SELECT sum(events) AS events, arrayMap(one -> (one.1, one.2 - one.3), topKMerge(100, 1, 'counts')(top)) AS top
FROM catalogue
WHERE website_id IN {websites:Array(String)} AND property = {property:String} AND type IN ('string', 'number', 'boolean')
    AND ({kind:String} = '' OR toString(kind) = {kind:String})
    AND ({event:String} = '' OR if(kind = 'pageview', {event:String} IN
    (
        SELECT name FROM catalogue
        WHERE website_id IN {websites:Array(String)} AND property = '' AND kind = 'pageview' AND name = {event:String}
    ), name = {event:String}))
GROUP BY type
