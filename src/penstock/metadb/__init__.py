"""The metadata DB: accounts, definitions, identity, deduplication, outbox, jobs. SQLite by default, PostgreSQL past one machine."""
