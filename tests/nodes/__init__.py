"""Several nodes over one PostgreSQL: what one changes, the others know."""
