-- How many events of some websites are stored, and how many of them were inserted after a number.
-- A part has the number of its newest insert in its name, so that older parts are not opened.
SELECT
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}) AS events,
    (
        SELECT count() FROM events
        WHERE website_id IN {websites:Array(String)}
            AND _block_number > {events_block:Int64}
            AND toInt64(splitByChar('_', _part)[3]) > {events_block:Int64}
    ) AS new_events
