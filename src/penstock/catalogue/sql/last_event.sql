-- The time of the latest event of a name; no row if there is none.
SELECT toInt64(toUnixTimestamp64Milli(max(last_at))) AS last_ms
FROM catalogue
WHERE website_id IN {websites:Array(String)} AND property = '' AND name = {name:String}
HAVING count() > 0
