-- A newer mark of an outcome. Its number is one higher than that of any other.
INSERT INTO funnel_outcome_marks
    (outcome, number, build, workspace_id, funnel_id, events_block, events, read_until, next_event, asked_at)
SELECT
    {outcome:String}, (SELECT max(number) FROM funnel_outcome_marks) + 1, {build:String}, {workspace_id:String}, {funnel_id:String},
    {events_block:Int64}, {events:UInt64}, {read_until:Int64}, {next_event:Int64}, {asked_at:Int64}
