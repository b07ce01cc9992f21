-- Delete the catalogue of these websites, before it is rebuilt.
ALTER TABLE catalogue DELETE WHERE website_id IN {websites:Array(String)}
SETTINGS mutations_sync = 0 -- `await_mutations` waits without holding the connection.
