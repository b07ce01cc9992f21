-- Tables whose parts a backup copies. The folder of a table is named after its UUID.
-- Funnel outcomes are written while the copy is made, so their tables would not match each other.
-- The copy leaves them out, and they are rebuilt.
SELECT name, toString(uuid) FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
    AND NOT startsWith(name, 'funnel_outcome') ORDER BY name
