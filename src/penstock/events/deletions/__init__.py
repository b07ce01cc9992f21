"""Deletions of a visitor, a user or a span: a job over both stores that survives restarts."""
