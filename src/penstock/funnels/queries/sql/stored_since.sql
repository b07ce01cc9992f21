-- The numbers of stored events and merges of the given websites, and how many of them were inserted
-- after the given inserts. The name of a part contains the number of its newest insert, so older
-- parts are not opened. Traits are summed up only for the scopes whose traits are read: every
-- change raises the version of its visitor, also if versions arrive in another order, and a
-- deletion lowers the number of visitors.
SELECT
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}) AS events,
    (SELECT count() FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}) AS aliases,
    (
        SELECT count() FROM events
        WHERE website_id IN {websites:Array(String)}
            AND _block_number > {events_block:Int64}
            AND toInt64(splitByChar('_', _part)[3]) > {events_block:Int64}
    ) AS new_events,
    (
        SELECT count() FROM visitor_aliases
        WHERE scope_id IN {scopes:Array(String)}
            AND _block_number > {aliases_block:Int64}
            AND toInt64(splitByChar('_', _part)[3]) > {aliases_block:Int64}
    ) AS new_aliases,
    traits.1 AS traits_versions,
    traits.2 AS visitors_with_traits,
    (
        SELECT (sum(newest), count())
        FROM (
            SELECT max(version) AS newest FROM visitor_traits
            WHERE scope_id IN {trait_scopes:Array(String)}
            GROUP BY visitor_key
        )
    ) AS traits
