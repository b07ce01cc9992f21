-- Number of merges of the given visitors, up to the given version.
SELECT count() FROM visitor_aliases FINAL
WHERE scope_id = {scope:String} AND visitor_key IN {visitors:Array(UInt64)}
    AND version <= {merge:UInt64}
