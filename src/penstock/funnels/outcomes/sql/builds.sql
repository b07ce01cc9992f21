-- All builds that have rows.
SELECT DISTINCT partition FROM system.parts
WHERE database = currentDatabase() AND active
    AND table IN ('funnel_outcomes', 'funnel_outcome_values', 'funnel_outcome_unitless')
