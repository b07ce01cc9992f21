-- The newest mark of an outcome. It has no build if the rows were dropped.
SELECT outcome, build, workspace_id, funnel_id, shipment, events, read_until, next_event,
    asked_at, number
FROM funnel_outcome_marks FINAL
WHERE outcome = {outcome:String}
