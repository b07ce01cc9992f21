-- The newest insert in each server's copy of the tables that are complete on every server of a
-- cluster. Each server has at least one part of `schema_migrations`.
SELECT shardNum() AS server, table, max(max_block_number)
FROM system.parts
WHERE database = currentDatabase() AND active AND rows > 0
    AND table IN ('visitor_aliases', 'visitor_traits', 'schema_migrations')
GROUP BY server, table
