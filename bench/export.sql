-- A million attempts of two steps, each in one of 200,000 cohorts.
INSERT INTO events
    (website_id, kind, name, occurred_at, event_id, received_at, stated_at, scope_id, visitor_id,
        source, properties, scalars, hashes)
WITH
    text -> toString(
        reinterpretAsInt64(bitOr(bitAnd(cityHash64(text), 18446744073709551608), 1))) AS hash,
    concat('topic ', toString(attempt % {cohorts:UInt32})) AS topic
SELECT
    'web_export', 'event', ['asked', 'answered'][step],
        fromUnixTimestamp64Milli({started:Int64} + attempt * 1000 + step * 60000) AS occurred_at,
    concat('evt_', toString(attempt), '_', toString(step)), occurred_at, occurred_at, 'web_export',
        concat('vis_', toString(attempt)), 'server', '{}',
    concat('{"attemptId":"sa', toString(attempt), '","topic":"s', topic,
        '"}')::JSON(max_dynamic_paths=32),
    concat('{"attemptId":', hash(concat('a', toString(attempt))), ',"topic":', hash(topic),
        '}')::JSON(max_dynamic_paths=32)
FROM
(
    SELECT number AS attempt, arrayJoin(if(number % 3 = 0, [1], [1, 2])) AS step
        FROM numbers({attempts:UInt64})
)
