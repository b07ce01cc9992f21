-- The number of the given websites' events that a later shipment has stored.
SELECT count() FROM events
WHERE website_id IN {websites:Array(String)} AND shipment > {shipment:UInt64}
