-- One number for the parts of the tables that hold something of some websites. A part is never changed under its name, so while the number
-- is the same, so is what is stored. The engine also puts parts together, which changes the number alone.
SELECT cityHash64(
    (SELECT arraySort(groupArray((node, _part))) FROM (SELECT DISTINCT hostName() AS node, _part FROM events WHERE website_id IN {websites:Array(String)})),
    (SELECT count() FROM events WHERE website_id IN {websites:Array(String)}),
    (SELECT arraySort(groupArray(_part)) FROM (SELECT DISTINCT _part FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)})),
    (SELECT count() FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)})
) AS storage_fingerprint
