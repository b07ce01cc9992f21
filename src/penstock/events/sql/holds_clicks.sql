SELECT count()
FROM clicks
WHERE website_id IN {website_ids:Array(String)} AND link_id IN {link_ids:Array(String)}
    AND click_id IN {click_ids:Array(String)}
