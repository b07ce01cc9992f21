-- The number of stored events of the given websites, and how many follow the given insert.
-- The name of a part contains the number of its newest insert, so older parts are not opened.
SELECT
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}) AS events,
    (
        SELECT count() FROM events
        WHERE website_id IN {websites:Array(String)}
            AND _block_number > {events_block:Int64}
            AND toInt64(splitByChar('_', _part)[3]) > {events_block:Int64}
    ) AS new_events
