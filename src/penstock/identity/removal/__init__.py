"""Removal of visitors with all their rows."""
