SELECT count()
FROM clicks
WHERE website_id = {website_id:String} AND link_id = {link_id:String}
    AND click_id = {click_id:String}
