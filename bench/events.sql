-- The rest of each event's row, as the intake stores it. The file has what differs between
-- attempts.
INSERT INTO events
    (website_id, kind, name, occurred_at, event_id, received_at, stated_at, scope_id, visitor_id,
        source, country, device,
     properties, scalars, hashes)
WITH fromUnixTimestamp64Milli(ms, 'UTC') AS at,
    substring(scalars.attemptId.:String, 2) AS id,
    if(is_second_visitor = 1, cityHash64(attempt, 'second'), cityHash64(attempt)) AS visitor_hash,
    concat('vis_', lower(hex(visitor_hash))) AS visitor
SELECT
    {website:String}, 'event', name, at,
    concat('evt_', lower(hex(ms)), substring(base32Encode(sipHash128(attempt, nth)), 1, 15)),
    at, at,
    {website:String}, visitor, 'server',
    ['DE', 'US', 'FR', 'JP', 'GB', 'NL', 'ES', 'IT', 'BR', 'IN'][1 + intDiv(attempt, 12) % 10],
        ['mobile', 'desktop'][1 + attempt % 2],
    concat('{"attemptId":"', id, '","n":', toString(nth), ',"variant":"',
        substring(scalars.variant.:String, 2),
        if(isNull(scalars.plan.:String), '',
            concat('","plan":"', substring(scalars.plan.:String, 2))),
        '","channel":"', substring(scalars.channel.:String, 2),
        '","amount":', substring(scalars.amount.:String, 2),
        ',"page":"', substring(scalars.page.:String, 2), '"}'),
    scalars, hashes
FROM file('{file}', Native,
    'name String, nth Int64, is_second_visitor Int64, attempt Int64, ms Int64,
    scalars JSON(max_dynamic_paths=32), hashes JSON(max_dynamic_paths=32)')
SETTINGS min_insert_block_size_rows = 4000000, min_insert_block_size_bytes = 2000000000,
    max_insert_threads = 1
