-- The number of rows of a build, and the number of the newest shipment that they include.
SELECT sum(known.rows) AS rows, max(known.newest) AS newest
FROM (
    SELECT count() AS rows, toInt64(max(version)) AS newest FROM funnel_outcomes
        WHERE build = {build:String}
    UNION ALL
    SELECT count() AS rows, max(block) AS newest FROM funnel_outcome_unitless
        WHERE build = {build:String}
) AS known
