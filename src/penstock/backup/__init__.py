"""Backups of both stores while the service runs, restoring them, and verification."""
