-- Hashed keys of visitors in a scope, in any order. The engine keeps the text of mutations for a
-- while, so they name visitors by these keys instead of their IDs.
SELECT sipHash64({scope:String}, arrayJoin({visitors:Array(String)}))
