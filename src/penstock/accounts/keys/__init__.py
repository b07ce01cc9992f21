"""API keys of a workspace."""
