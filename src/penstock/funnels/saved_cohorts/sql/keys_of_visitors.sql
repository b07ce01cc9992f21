-- Visitors in a scope with their keys.
SELECT visitor_id, sipHash64({scope:String}, visitor_id)
FROM (SELECT arrayJoin({visitors:Array(String)}) AS visitor_id)
