"""Saved mappings, which tables with the same columns use again."""
