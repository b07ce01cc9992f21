-- The number of the given websites' events up to a shipment, and how many of them an earlier
-- shipment does not include.
SELECT count() AS events, countIf(shipment > {known:UInt64}) AS new_events
FROM events
WHERE website_id IN {websites:Array(String)} AND shipment <= {shipment:UInt64}
