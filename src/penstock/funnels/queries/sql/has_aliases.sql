-- Whether visitors of some identity scopes were merged.
SELECT count() > 0 AS has_aliases FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}
