-- Reads nothing: a server refuses it when a right is missing.
SELECT 1 FROM system.parts LIMIT 0
UNION ALL SELECT 1 FROM system.processes LIMIT 0
UNION ALL SELECT 1 FROM system.mutations LIMIT 0
