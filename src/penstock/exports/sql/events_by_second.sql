-- Number of events of a website in each second of a span of time. second: since 1970.
SELECT
    toInt64(intDiv(toUnixTimestamp64Milli(occurred_at), 1000)) AS second,
    toInt64(count()) AS rows
FROM events
WHERE website_id = {website:String}
    AND occurred_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')
    AND occurred_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
GROUP BY second
ORDER BY second
