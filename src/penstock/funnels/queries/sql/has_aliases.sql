-- Whether any visitors of the given identity scopes were merged.
SELECT count() > 0 AS has_aliases FROM visitor_aliases WHERE scope_id IN {scopes:Array(String)}
