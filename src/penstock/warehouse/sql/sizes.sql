SELECT table, sum(rows) AS table_rows, sum(bytes_on_disk) AS bytes
FROM system.parts
WHERE active AND database = currentDatabase()
GROUP BY table
ORDER BY bytes DESC
