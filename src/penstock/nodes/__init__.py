"""How nodes that share a PostgreSQL database notify each other of changes."""
