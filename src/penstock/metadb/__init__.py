"""The metadata database: SQLite by default, PostgreSQL for several machines."""
