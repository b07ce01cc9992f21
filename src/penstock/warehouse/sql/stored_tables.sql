-- The tables whose parts belong into a copy. Their folder has the table's UUID as its name.
-- Outcomes of funnels are stored while a copy is made, so their tables would be of different
-- moments. A copy has none, and they are built again.
SELECT name, toString(uuid) FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
    AND NOT startsWith(name, 'funnel_outcome') ORDER BY name
