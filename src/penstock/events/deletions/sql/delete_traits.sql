-- A mutation. Later traits of the same visitors have higher versions and are kept.
ALTER TABLE visitor_traits
DELETE WHERE scope_id = {scope:String} AND visitor_key IN {visitors:Array(UInt64)}
    AND version <= {version:UInt64}
SETTINGS mutations_sync = 0 -- `await_mutations` waits without holding the connection.
