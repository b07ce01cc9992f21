"""Profiles of visitors, for people to read."""
