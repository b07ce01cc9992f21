"""The metadata database: SQLite by default, PostgreSQL for more than one machine."""
