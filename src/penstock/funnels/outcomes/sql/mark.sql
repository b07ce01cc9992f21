-- The newest mark of an outcome; without a build when its rows are dropped.
SELECT outcome, build, workspace_id, funnel_id, events_block, events, read_until, next_event,
    asked_at, number
FROM funnel_outcome_marks FINAL
WHERE outcome = {outcome:String}
