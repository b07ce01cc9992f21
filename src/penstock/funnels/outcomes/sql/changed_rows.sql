-- The rows of a build that follow a position, in the order of their changes.
SELECT version, unit FROM funnel_outcomes
WHERE build = {build:String} AND (version, unit) > ({version:UInt64}, {unit:UInt64})
    AND (version > {base:UInt64} OR (reached > 0 AND entry_ts >= {entered_from_ms:Int64}))
ORDER BY version, unit
LIMIT {max_rows:UInt64}
