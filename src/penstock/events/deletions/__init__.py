"""Deletion of a visitor, a user or a period, in both stores. Deletions survive restarts."""
