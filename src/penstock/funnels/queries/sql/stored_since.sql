-- How many events and merges of some websites are stored, and how many of them were inserted after a number.
SELECT
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}) AS events,
    (SELECT count() FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}) AS aliases,
    (
        SELECT count() FROM events
        WHERE website_id IN {websites:Array(String)} AND _block_number > {events_block:Int64} AND _part IN (
            SELECT name FROM system.parts
            WHERE database = currentDatabase() AND table = 'events' AND active AND max_block_number > {events_block:Int64}
        )
    ) AS new_events,
    (
        SELECT count() FROM visitor_aliases
        WHERE scope_id IN {scopes:Array(String)} AND _block_number > {aliases_block:Int64} AND _part IN (
            SELECT name FROM system.parts
            WHERE database = currentDatabase() AND table = 'visitor_aliases' AND active AND max_block_number > {aliases_block:Int64}
        )
    ) AS new_aliases
