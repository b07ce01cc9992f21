-- Reads no rows. A server refuses it if Penstock's user lacks a right.
SELECT 1 FROM system.parts LIMIT 0
UNION ALL SELECT 1 FROM system.processes LIMIT 0
UNION ALL SELECT 1 FROM system.mutations LIMIT 0
