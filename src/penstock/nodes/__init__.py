"""Notifications of changes between nodes that share a PostgreSQL database."""
