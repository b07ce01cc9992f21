-- Save a newer mark of an outcome, with a higher number than any earlier mark.
INSERT INTO funnel_outcome_marks
    (outcome, number, build, workspace_id, funnel_id, shipment, events, read_until, next_event,
        asked_at)
SELECT
    {outcome:String}, {number:UInt64}, {build:String}, {workspace_id:String}, {funnel_id:String},
    {shipment:Int64}, {events:UInt64}, {read_until_ms:Int64}, {next_event_ms:Int64},
        {queried_at_ms:Int64}
