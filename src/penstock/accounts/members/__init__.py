"""Members of a workspace and their roles."""
