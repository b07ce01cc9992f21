-- The sums of what was seen on some websites, which are made anew.
ALTER TABLE catalogue DELETE WHERE website_id IN {websites:Array(String)}
SETTINGS mutations_sync = 0 -- `await_mutations` waits, without holding the connection
