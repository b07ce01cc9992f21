-- Days (UTC) with events of a website, oldest first. fingerprint: changes with the events.
SELECT
    toString(toDate(occurred_at)) AS day,
    toInt64(count()) AS rows,
    hex(sum(cityHash64(event_id))) AS fingerprint
FROM events
WHERE website_id = {website:String}
GROUP BY day
ORDER BY day
