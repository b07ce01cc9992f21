-- A mutation: it rewrites the parts that contain such events, without them.
ALTER TABLE events
DELETE WHERE website_id IN {websites:Array(String)} AND import_id = {import:String}
SETTINGS mutations_sync = 0 -- `await_mutations` waits without holding the connection.
