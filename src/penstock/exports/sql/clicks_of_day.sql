-- Clicks on the links of a website in a span of time, oldest first. The hash of a click token is
-- left out, because it is a credential.
SELECT
    * EXCEPT (token_hash)
    REPLACE (toString(answer) AS answer)
FROM clicks
WHERE website_id = {website:String}
    AND clicked_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')
    AND clicked_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
ORDER BY clicked_at, click_id
