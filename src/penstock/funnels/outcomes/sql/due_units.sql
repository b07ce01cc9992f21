-- Units of a build that are neither complete nor excluded, in the order of their entries.
SELECT entry_ts, unit FROM funnel_outcomes
WHERE build = {build:String} AND (entry_ts, unit) > ({entry_ms:Int64}, {unit:UInt64})
    AND entry_ts <= {until_ms:Int64} AND reached BETWEEN 1 AND {steps:UInt8} - 1
    AND excluded_after < 0
ORDER BY entry_ts, unit
LIMIT 1 BY unit
LIMIT {max_rows:UInt64}
