"""Saved funnels and their revisions."""
