-- The number of the newest insert that any row of each build knows.
SELECT build, max(newest) AS newest
FROM (
    SELECT build, toInt64(max(version)) AS newest FROM funnel_outcomes GROUP BY build
    UNION ALL
    SELECT build, max(block) AS newest FROM funnel_outcome_unitless GROUP BY build
)
GROUP BY build
