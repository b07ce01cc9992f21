"""Backup of both stores while the service runs, restore, and verification."""
