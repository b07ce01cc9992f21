"""Several nodes over one PostgreSQL: each learns what another changes."""
