-- One number for what is stored of some websites, whichever parts it lies in: it differs after an insert, a deletion or a merge of visitors.
SELECT cityHash64(
    (SELECT (count(), sum(cityHash64(received_at, occurred_at, visitor_key, name))) FROM events WHERE website_id IN {websites:Array(String)}),
    (SELECT (count(), sum(cityHash64(visitor_key, canonical_key, version))) FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)})
) AS data_checksum
