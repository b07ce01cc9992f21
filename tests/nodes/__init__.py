"""Several nodes that share a PostgreSQL database: each learns about the others' changes."""
