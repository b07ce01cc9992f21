-- A mutation: it rewrites the parts that contain such events, without them.
ALTER TABLE events
DELETE WHERE website_id IN {websites:Array(String)} AND visitor_key IN {visitors:Array(UInt64)}
    -- Another statement selects the events that name the user.
    AND (user_id != {user:String} OR user_id = '')
    AND received_at <= fromUnixTimestamp64Milli({requested_at:Int64})
SETTINGS mutations_sync = 0 -- `await_mutations` waits without holding the connection.
