-- Believable attempts: six steps with a loss at each, repeats, noise between the steps, sequence numbers,
-- and a share of what makes counting hard: ties, resumed attempts whose plan changed, missing values, a second visitor.
INSERT INTO events
    (website_id, kind, name, occurred_at, event_id, received_at, stated_at, scope_id, visitor_id, source, country, device, properties, scalars, hashes)
WITH
    text -> toString(reinterpretAsInt64(bitOr(bitAnd(cityHash64(text), 18446744073709551608), 1))) AS hash,
    lower(hex(sipHash128(attempt))) AS id,
    ['control', 'a', 'b'][1 + attempt % 3] AS variant,
    if(odd = 4, '', ['free', 'pro', 'team', 'enterprise'][1 + (intDiv(attempt, 3) + (odd = 2 AND nth > 2)) % 4]) AS plan,
    ['search', 'social', 'mail', 'direct', 'partner'][1 + intDiv(attempt, 36) % 5] AS channel
SELECT
    'web_bench', 'event', if(step = 0, concat('noise_', toString(h % 20)), concat('step_', toString(step))),
    fromUnixTimestamp64Milli(1700000000000 + started + at) AS occurred_at,
    concat('evt_', lower(hex(attempt)), '_', lower(hex(nth))), occurred_at, occurred_at,
    'web_bench', concat('vis_', lower(hex(if(odd = 3 AND nth > 2, cityHash64(attempt, 'second'), cityHash64(attempt))))),
    'server', ['DE', 'US', 'FR', 'JP', 'GB', 'NL', 'ES', 'IT', 'BR', 'IN'][1 + intDiv(attempt, 12) % 10], ['mobile', 'desktop'][1 + attempt % 2],
    '{}',
    concat('{"attemptId":"s', id, '","n":"n', toString(nth), '","variant":"s', variant, if(plan = '', '', concat('","plan":"s', plan)),
           '","channel":"s', channel, '","amount":"n', toString(h % 10000 / 100), '","page":"s', toString(h % 1000), '"}')::JSON,
    concat('{"attemptId":', hash(id), ',"variant":', hash(variant), if(plan = '', '', concat(',"plan":', hash(plan))),
           ',"channel":', hash(channel), ',"n":', toString(nth * 8 + 2), '}')::JSON
FROM
(
    SELECT
        attempt, nth, steps[nth] AS step, cityHash64(attempt, nth) AS h, cityHash64(attempt, 'odd') % 100 AS odd,
        cityHash64(attempt, 'start') % (86400000 * 60) AS started,
        -- one attempt in a hundred has all its events at the same time, told apart by their numbers alone
        if(odd = 1, 0, nth * (20000 + cityHash64(attempt, 'pace') % 60000)) AS at
    FROM
    (
        SELECT
            number AS attempt,
            toUInt8(1 + least(5, log(1 + cityHash64(number) % 1000 / 30.0) * 1.6)) AS reach,
            arrayFlatten(arrayMap(
                k -> multiIf(cityHash64(number, k, 'repeat') % 100 < 8, [k, k], cityHash64(number, k, 'noise') % 100 < 25, [k, 0], [k]),
                range(1, reach + 1))) AS steps
        FROM numbers({attempts:UInt64})
    )
    ARRAY JOIN arrayEnumerate(steps) AS nth
)
