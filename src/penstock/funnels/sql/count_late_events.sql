-- Events of a period, and how many of them were received more than an hour after they occurred.
-- Imported events are not late: an import fills in history.
SELECT
    count() AS events,
    countIf(received_at > occurred_at + INTERVAL 1 HOUR AND source != 'import') AS late
FROM events
WHERE website_id IN {websites:Array(String)}
    AND occurred_at >= fromUnixTimestamp64Milli({start:Int64})
    AND occurred_at < fromUnixTimestamp64Milli({end:Int64})
