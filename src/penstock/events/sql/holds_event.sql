SELECT count()
FROM events
WHERE website_id = {website_id:String} AND name = {name:String} AND event_id = {event_id:String}
