"""What the nodes over one PostgreSQL tell each other."""
