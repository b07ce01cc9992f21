"""The warehouse: the ClickHouse engine, in the process (chDB) or as a server. Holds events and visitor aliases, answers funnels."""
