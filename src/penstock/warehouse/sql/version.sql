-- One number for what is stored of some websites. It changes with every insert, deletion and merge of visitors.
-- A part of a table is never changed under its name: the engine writes a new part instead. It also does so when it puts parts together,
-- which changes the number without need, and seldom for data that are at rest.
SELECT cityHash64(
    (SELECT arraySort(groupArray(_part)) FROM (SELECT DISTINCT _part FROM events WHERE website_id IN {websites:Array(String)})),
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}),
    (SELECT arraySort(groupArray(_part)) FROM (SELECT DISTINCT _part FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)})),
    (SELECT count() FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)})
) AS version
