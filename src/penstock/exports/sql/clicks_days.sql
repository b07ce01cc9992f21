-- Days (UTC) with clicks of a website, oldest first. fingerprint: changes with the clicks.
SELECT
    toString(toDate(clicked_at)) AS day,
    toInt64(count()) AS rows,
    hex(sum(cityHash64(click_id))) AS fingerprint
FROM clicks
WHERE website_id = {website:String}
GROUP BY day
ORDER BY day
