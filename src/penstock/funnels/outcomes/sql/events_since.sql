-- How many events of some websites are stored, and how many of them were inserted after a number.
SELECT
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}) AS events,
    (
        SELECT count() FROM events
        WHERE website_id IN {websites:Array(String)} AND _block_number > {events_block:Int64} AND _part IN (
            SELECT name FROM system.parts
            WHERE database = currentDatabase() AND table = 'events' AND active AND max_block_number > {events_block:Int64}
        )
    ) AS new_events
