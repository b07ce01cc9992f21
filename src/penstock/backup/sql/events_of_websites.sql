-- Events by website and identity scope.
SELECT website_id, scope_id, count() AS events FROM events GROUP BY website_id, scope_id
