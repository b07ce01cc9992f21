TRUNCATE TABLE insert_probe
