"""Deletions of a visitor, a user or a span of time: a job over both stores that survives restarts."""
