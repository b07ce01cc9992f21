-- The keys of some visitors of a scope, in any order. Statements that are kept for a while, as
-- mutations are, name these and no IDs.
SELECT sipHash64({scope:String}, arrayJoin({visitors:Array(String)}))
