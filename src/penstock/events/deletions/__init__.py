"""Deletions of a visitor, a user or a period: jobs over both stores that survive restarts."""
