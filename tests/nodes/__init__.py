"""Tests of several nodes that share a PostgreSQL database and notify each other of changes."""
