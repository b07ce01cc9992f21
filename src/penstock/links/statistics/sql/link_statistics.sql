-- Counts of one link in a period: by time bucket, by platform, by country, and by the method that
-- matched its opens and installs.
WITH occurrences AS
(
    SELECT
        toUnixTimestamp64Milli(clicked_at) AS at,
        toString(platform) AS platform,
        toString(country) AS country,
        '' AS method,
        NOT bot AS click,
        first_of_day AS unique_click,
        bot AS bot_hit,
        qr AND NOT bot AS qr_scan,
        0 AS open,
        0 AS install
    FROM clicks
    WHERE website_id = {website:String} AND link_id = {link:String}
        AND clicked_at >= fromUnixTimestamp64Milli({start:Int64})
        AND clicked_at < fromUnixTimestamp64Milli({end:Int64})
    UNION ALL
    SELECT
        toUnixTimestamp64Milli(occurred_at) AS at,
        lower(toString(os)) AS platform,
        toString(country) AS country,
        toString(link_method) AS method,
        0 AS click,
        0 AS unique_click,
        0 AS bot_hit,
        0 AS qr_scan,
        name = 'open' AS open,
        name = 'install' AS install
    FROM events
    WHERE website_id = {website:String} AND name IN ('open', 'install') AND kind = 'event'
        AND occurred_at >= fromUnixTimestamp64Milli({start:Int64})
        AND occurred_at < fromUnixTimestamp64Milli({end:Int64})
        AND link = {slug:String}
)
SELECT
    multiIf(grouping(bucket) = 0, 'bucket', grouping(platform) = 0, 'platform',
        grouping(country) = 0, 'country', 'method') AS part,
    multiIf(part = 'bucket', toString(bucket), part = 'platform', platform,
        part = 'country', country, method) AS value,
    sum(click) AS clicks,
    sum(unique_click) AS unique_clicks,
    sum(bot_hit) AS bot_hits,
    sum(qr_scan) AS qr_scans,
    sum(open) AS opens,
    sum(install) AS installs
FROM (SELECT *, roundDown(at, {edges:Array(Int64)}) AS bucket FROM occurrences)
GROUP BY GROUPING SETS ((bucket), (platform), (country), (method))
ORDER BY part, clicks DESC, value
