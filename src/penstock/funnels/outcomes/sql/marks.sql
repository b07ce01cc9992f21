-- The newest mark of each stored outcome.
SELECT outcome, build, workspace_id, funnel_id, shipment, events, read_until, next_event,
    asked_at, number
FROM funnel_outcome_marks FINAL
WHERE build != ''
