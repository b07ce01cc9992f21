INSERT INTO insert_probe SELECT now64(3)
