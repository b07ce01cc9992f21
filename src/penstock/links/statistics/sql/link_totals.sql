-- Counts of each link since a time. A link without clicks, opens and installs has no row.
SELECT
    link_id,
    sum(clicks) AS clicks,
    sum(unique_clicks) AS unique_clicks,
    sum(bot_hits) AS bot_hits,
    sum(qr_scans) AS qr_scans,
    sum(opens) AS opens,
    sum(installs) AS installs
FROM
(
    SELECT
        link_id,
        countIf(NOT bot) AS clicks,
        countIf(first_of_day) AS unique_clicks,
        countIf(bot) AS bot_hits,
        countIf(qr AND NOT bot) AS qr_scans,
        0 AS opens,
        0 AS installs
    FROM clicks
    WHERE website_id IN {websites:Array(String)} AND link_id IN {links:Array(String)}
        AND clicked_at >= fromUnixTimestamp64Milli({since:Int64})
    GROUP BY link_id
    UNION ALL
    SELECT
        transform(toString(link), {slugs:Array(String)}, {links:Array(String)}, '') AS link_id,
        0 AS clicks,
        0 AS unique_clicks,
        0 AS bot_hits,
        0 AS qr_scans,
        countIf(name = 'open') AS opens,
        countIf(name = 'install') AS installs
    FROM events
    WHERE website_id IN {websites:Array(String)} AND name IN ('open', 'install') AND kind = 'event'
        AND link IN {slugs:Array(String)}
        AND occurred_at >= fromUnixTimestamp64Milli({since:Int64})
    GROUP BY link_id
)
GROUP BY link_id
